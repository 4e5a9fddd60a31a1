import { Inject, Injectable } from '@nestjs/common';
import type { JWTPayload } from 'jose';
import { ConfigurationError } from '../errors/configuration.error.js';
import { LoginFailedError, type LoginFailureReason } from '../errors/login-failed.error.js';
import type { LoginSettings } from '../options/tenant-settings.js';
import { refusedToken, type TokenDelivery, type TokenUse } from '../problems/login-problems.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import { uselessKeys } from '../problems/provider-problems.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import { loginOf, type Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import { Deadlines } from '../time/deadlines.service.js';
import { logoutTokenFailure } from './logout-token.js';
import { OpenIdProvider } from './openid-provider.service.js';
import { accessTokenFailure, idTokenFailure, smallerAge, type LoginBinding } from './check-claims.js';
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

export interface GivenToken extends LoginBinding {
  use: TokenUse;
  token: string;
  /** Who delivered the token, for the operator's log. Default: a client. */
  delivery?: TokenDelivery;
}

/** The reason to refuse a token with a valid signature; `undefined` where it is valid. `now` in seconds since 1970. */
type ClaimsCheck = (verified: VerifiedToken, now: number) => LoginFailureReason | undefined;

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
    const signed = this.#verifySignature(tenant, login.algorithms, given.token, deadline);
    const verified = await signed.catch((error: unknown) => {
      throw error instanceof LoginFailedError
        ? this.#error(tenant, login, given, error.reason, error.message)
        : error;
    });
    const reason = check(verified, this.clock.epochMs() / 1000);
    if (reason === undefined) {
      return verified;
    }
    const { payload } = verified;
    throw this.#error(tenant, login, { ...given, payload }, reason, `the token is refused: ${reason}`);
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

  /** The error of a refusal, reported to the operator where an option may be the cause. */
  #error(
    tenant: Tenant,
    login: LoginSettings,
    { use, token, delivery = 'client', payload }: GivenToken & { payload?: JWTPayload },
    reason: LoginFailureReason,
    message: string,
  ): LoginFailedError {
    const header = unverified(token, 'header');
    const problem =
      reason === 'provider'
        ? uselessKeys(message)
        : refusedToken(reason, { use, delivery, header, payload }, login);
    this.log.report(tenant, problem);
    return new LoginFailedError(reason, message, { tenant: tenant.key });
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
    const expected = { ...login, audience, clientId };
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
