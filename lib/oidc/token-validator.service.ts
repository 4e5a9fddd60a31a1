import { Inject, Injectable } from '@nestjs/common';
import type { JWTPayload } from 'jose';
import { ConfigurationError } from '../errors/configuration.error.js';
import { LoginFailedError, type LoginFailureReason } from '../errors/login-failed.error.js';
import type { KeySource } from '../options/key-source.js';
import type { LoginSettings } from '../options/tenant-settings.js';
import type { Refusal } from '../problems/problem.interface.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import { loginOf, type Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { Deadlines, type Deadline } from '../time/deadline.js';
import { logoutTokenFailure } from './logout-token.js';
import { OpenIdProvider } from './openid-provider.service.js';
import {
  accessTokenFailure,
  described,
  idTokenFailure,
  smallerAge,
  type LoginBinding,
} from './check-claims.js';
import { checkHeader, unverified, verifyToken, type VerifiedToken } from './verify-signature.js';

/** Options of {@link TokenValidator.validate}. */
export interface ValidateOptions {
  /** Key of the tenant. Default: the only one. */
  tenant?: string | undefined;
  /** Kind of the token. An ID token is not accepted as an access token, nor the reverse. */
  use: 'id_token' | 'access_token';
  /** The nonce that was sent for an ID token. */
  nonce?: string | undefined;
}

export type TokenUse = 'id_token' | 'access_token' | 'logout_token';

/** Who delivered a token: the provider, by a request of ours; or a browser or another client, which may have made it up. */
export type TokenDelivery = 'provider' | 'client';

export interface GivenToken extends LoginBinding {
  use: TokenUse;
  token: string;
  /** Who delivered the token, for the operator's log. Default: a client. */
  delivery?: TokenDelivery;
}

/** Why a token with a valid signature is refused; `undefined` where it is valid. `now` in seconds since 1970. */
type ClaimsCheck = (verified: VerifiedToken, now: number) => Refusal | undefined;

const NAMES: Readonly<Record<TokenUse, string>> = {
  id_token: 'ID token',
  access_token: 'access token',
  logout_token: 'logout token',
};

/**
 * Validates tokens of the identity provider with the values of onboarding: public key, issuer and audience.
 *
 * @example
 * const { sub } = await validator.validate(token, { tenant: 'acme', use: 'access_token' });
 */
@Injectable()
export class TokenValidator {
  /** @internal */
  constructor(
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(OpenIdProvider) private readonly provider: OpenIdProvider,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Deadlines) private readonly deadlines: Deadlines,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {}

  /**
   * The claims of a valid token.
   *
   * @throws {ExhibitorError} `login_failed` with the reason of the refusal; `unknown_tenant`, `tenant_required`;
   * `configuration_invalid` where the tenant has no login or no `audience.accessToken`; `service_unavailable` or
   * `deadline_exceeded` where the keys cannot be fetched
   */
  async validate(token: string, options: ValidateOptions): Promise<JWTPayload> {
    const tenant = await this.tenants.resolve(options.tenant);
    const { use, nonce } = options;
    const { payload } = await this.deadlines.within(tenant.http.deadline, (deadline) =>
      this.verify(tenant, { use, token, nonce }, deadline),
    );
    return payload;
  }

  /** As {@link validate}, for tokens of every use. @internal */
  async verify(tenant: Tenant, given: GivenToken, deadline: Deadline): Promise<VerifiedToken> {
    const settings = loginOf(tenant);
    const maxAge = smallerAge(settings.maxAge, given.maxAge);
    const login = { ...settings, maxAge, nonce: given.nonce };
    const check = CHECK_BY_USE[given.use](login, tenant.key);
    const verified = await this.#verifySignature(tenant, login.algorithms, given.token, deadline).catch(
      (error: unknown) => {
        throw this.#signatureError(tenant, login, given, error);
      },
    );
    const refusal = check(verified, this.clock.epochMs() / 1000);
    if (refusal === undefined) {
      return verified;
    }
    const { reason } = refusal;
    const isTime = reason === 'expired' || reason === 'issued';
    // Clients send expired tokens all the time.
    if (!isTime || given.delivery === 'provider') {
      this.#report(tenant, given.use, refusal, false);
    }
    throw new LoginFailedError(reason, `the token is refused: ${reason}`, { tenant: tenant.key });
  }

  async #verifySignature(
    tenant: Tenant,
    algorithms: readonly string[],
    token: string,
    deadline: Deadline,
  ): Promise<VerifiedToken> {
    const { kid } = checkHeader(token, algorithms);
    const keys = await this.provider.keysFor(tenant, kid, deadline);
    try {
      return await verifyToken(token, keys, algorithms);
    } catch (error) {
      // Without a `kid`, whether a key is missing shows only when none fits the signature.
      const mayBeMissing =
        error instanceof LoginFailedError && error.reason === 'signature' && kid === undefined;
      const newer = mayBeMissing ? await this.provider.keysFor(tenant, kid, deadline, keys) : keys;
      if (newer === keys) {
        throw error;
      }
      return verifyToken(token, newer, algorithms);
    }
  }

  /** Nothing in the token is verified: a client may have made it up. */
  #signatureError(tenant: Tenant, login: LoginSettings, given: GivenToken, error: unknown): unknown {
    if (!(error instanceof LoginFailedError)) {
      return error;
    }
    const { reason, message } = error;
    if (reason === 'provider') {
      this.log.report(tenant, { cause: 'keys', options: ['login.keys'], message });
    } else {
      const refusal = signatureRefusal(reason, given.token, login);
      this.#report(tenant, given.use, refusal, given.delivery !== 'provider');
    }
    return new LoginFailedError(reason, message, { tenant: tenant.key });
  }

  #report(tenant: Tenant, use: TokenUse, refusal: Refusal, isUnverified: boolean): void {
    const { reason, option, ...values } = refusal;
    if (option === undefined) {
      return;
    }
    const message = `the ${NAMES[use]} is refused (${reason})`;
    this.log.report(tenant, {
      cause: `${use} ${reason}`,
      options: [option],
      message,
      isUnverified,
      ...values,
    });
  }
}

/** A token whose signature cannot be verified. */
function signatureRefusal(
  reason: LoginFailureReason,
  token: string,
  { algorithms, keys }: LoginSettings,
): Refusal {
  const { alg, kid } = unverified(token, 'header');
  if (reason === 'algorithm') {
    const expected = `alg ${algorithms.join(', ')}`;
    return { reason, option: 'login.algorithms', expected, received: `alg ${described(alg)}` };
  }
  const option = keys === undefined ? 'login.discovery' : 'login.keys';
  const received = `kid ${described(kid)}, alg ${described(alg)}`;
  return { reason, option, expected: describedKeys(keys), received };
}

function describedKeys(keys: KeySource | undefined): string {
  switch (keys?.kind) {
    case undefined:
      return "a key of the provider's metadata";
    case 'pem':
      return `the ${keys.key.asymmetricKeyType ?? ''} key of the PEM`;
    case 'url':
      return `a key of ${keys.url}`;
    case 'jwks':
      return `kid ${described(keys.jwks.keys.map(({ kid }) => kid ?? 'none'))}`;
  }
}

/** The rules for the claims of a token, by its use. They throw `configuration_invalid` where an option is missing. */
const CHECK_BY_USE: Readonly<
  Record<TokenUse, (login: LoginSettings & LoginBinding, tenantKey: string) => ClaimsCheck>
> = {
  id_token: (login, tenantKey) => {
    const { audience: option, clientId } = login;
    const audience = typeof option === 'string' ? option : (option?.idToken ?? clientId);
    if (audience === undefined || clientId === undefined) {
      throw missingOption(tenantKey, 'audience.idToken');
    }
    const audienceOption = option === undefined ? 'login.clientId' : 'login.audience';
    const expected = { ...login, audience, audienceOption, clientId };
    return ({ header, payload }, now) => idTokenFailure(payload, header.typ, expected, now);
  },
  access_token: (login, tenantKey) => {
    const audience = typeof login.audience === 'object' ? login.audience.accessToken : undefined;
    if (audience === undefined) {
      throw missingOption(tenantKey, 'audience.accessToken');
    }
    const expected = { ...login, audience };
    return ({ header, payload }, now) => accessTokenFailure(payload, header.typ, expected, now);
  },
  logout_token:
    (login) =>
    ({ header, payload }, now) =>
      logoutTokenFailure(payload, header.typ, login, now),
};

function missingOption(tenantKey: string, option: string): ConfigurationError {
  return new ConfigurationError(
    [{ path: `login.${option}`, expected: 'is required to validate this token' }],
    tenantKey,
  );
}
