import { Inject, Injectable } from '@nestjs/common';
import type { JWTPayload, JWTVerifyOptions } from 'jose';
import { ConfigurationError } from '../errors/configuration.error.js';
import { described } from '../config/problems/claim-text.js';
import { addressOption } from '../config/problems/partner-problems.js';
import type { Refusal } from '../config/problems/problem.interface.js';
import { ProblemLog } from '../config/problems/problem-log.service.js';
import { TenantRegistry } from '../config/tenant-registry.service.js';
import { loginOf, type Tenant } from '../config/tenant.js';
import { Clock } from '../call/clock.js';
import type { Call } from '../call/call.js';
import { Calls } from '../call/calls.service.js';
import type { KeyHint } from './key-set.js';
import { OpenIdProvider } from './openid-provider.service.js';
import {
  accessTokenRules,
  differs,
  idTokenRules,
  logoutTokenRules,
  refusalBy,
  type TokenRules,
} from './token-rules.js';
import {
  unverified,
  verifyToken,
  type ClaimFailure,
  type NotVerified,
  type VerifiedToken,
} from './verify-signature.js';

/** Options of {@link TokenValidator.validate}. */
export interface ValidateOptions {
  /** Key of the tenant. Default: the only one. */
  tenant?: string | undefined;
  /** Kind of the token. An ID token is not accepted as an access token, nor the reverse. */
  use: 'id_token' | 'access_token';
  /** The nonce that was sent for an ID token. Default: the nonce is not checked. */
  nonce?: string | undefined;
}

/** What is validated, and what it must fit. */
export interface GivenToken {
  use: 'id_token' | 'access_token' | 'logout_token';
  token: string;
  nonce?: string | undefined;
  /** Of this login, in seconds. Default: the option. */
  maxAge?: number | undefined;
  /** True for a token that the provider answered to a request of ours. A browser or another client may have made up any other. */
  isFromProvider?: boolean;
}

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
    @Inject(Calls) private readonly calls: Calls,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {}

  /**
   * The claims of a valid token. An ID token must fit the option `login.maxAge` too.
   *
   * @throws {ExhibitorError} `login_failed` with the reason of the refusal; `unknown_tenant`, `tenant_required`;
   * `configuration_invalid` where the tenant has no login or no `audience.accessToken`; `service_unavailable`,
   * `rate_limited` or `deadline_exceeded` where the keys cannot be fetched
   */
  async validate(token: string, options: ValidateOptions): Promise<JWTPayload> {
    const tenant = await this.tenants.resolve(options.tenant);
    const { use, nonce } = options;
    // Of a query, it may be a list or absent.
    const text = typeof token === 'string' ? token : '';
    const { payload } = await this.calls
      .start(tenant.http.deadline)
      .run((call) => this.verify(tenant, { use, token: text, nonce }, call));
    return payload;
  }

  /** As {@link validate}, for tokens of every use: their signature, then their claims. @internal */
  async verify(tenant: Tenant, given: GivenToken, call: Call): Promise<VerifiedToken> {
    // First: where an option is missing, no keys are fetched.
    const rules = rulesFor(given, tenant);
    const { algorithms, issuer, clockTolerance } = loginOf(tenant);
    const header = unverified(given.token, 'header');
    const { alg, kid } = header;
    if (typeof alg === 'string' && !algorithms.some((name) => name === alg)) {
      const refusal = differs('algorithm', 'login.algorithms', 'alg', algorithms.join(', '), header);
      return this.#refuse(tenant, given, refusal);
    }
    const now = this.clock.epochMs();
    const { audience, requiredClaims } = rules;
    const currentDate = new Date(now);
    const expected = { issuer, audience, requiredClaims, clockTolerance, currentDate };
    const options = { ...expected, algorithms: [...algorithms] };
    // Claims that are nested too deeply for other code are unreadable, too.
    const isReadable = Object.keys(unverified(given.token, 'claims')).length > 0;
    const verified =
      isReadable && typeof alg === 'string' && (kid === undefined || typeof kid === 'string')
        ? await this.#verifySignature(tenant, given.token, { alg, kid }, options, call)
        : { expected: 'a JWT' };
    if ('expected' in verified) {
      const option = addressOption(tenant, 'keys');
      const received = `kid ${described(kid)}, alg ${described(alg)}`;
      return this.#refuse(tenant, given, { reason: 'signature', option, received, ...verified });
    }
    if ('claim' in verified) {
      return this.#refuse(tenant, given, refusalBy(verified.claim, verified.payload, issuer, rules));
    }
    const refusal = rules.check(verified.payload, verified.header.typ, now / 1000);
    return refusal === undefined ? verified : this.#refuse(tenant, given, refusal);
  }

  /** Where no key verifies the token, keys are fetched again: a new one may have the `kid` of an old one. */
  async #verifySignature(
    tenant: Tenant,
    token: string,
    hint: KeyHint,
    options: JWTVerifyOptions,
    call: Call,
  ): Promise<VerifiedToken | ClaimFailure | NotVerified> {
    const keys = await this.provider.keysOf(tenant, call);
    const verified = await verifyToken(token, hint, keys, options);
    const isFinal = !('expected' in verified);
    const newer = isFinal ? keys : await this.provider.keysOf(tenant, call, keys);
    return newer === keys ? verified : verifyToken(token, hint, newer, options);
  }

  #refuse(tenant: Tenant, { use, nonce, isFromProvider = false }: GivenToken, refusal: Refusal): never {
    const { reason, option } = refusal;
    const isUnverified = !isFromProvider && (reason === 'signature' || reason === 'algorithm');
    const isOfClient = !isFromProvider && nonce === undefined && use !== 'logout_token';
    // Clients send expired tokens, and tokens of a clock that is ahead, all the time.
    const isUsual = isOfClient && option === 'login.clockTolerance';
    const shown = { ...refusal, isUnverified, isWarning: isUsual || option === undefined };
    throw this.log.refusal(tenant, NAMES[use], shown, { message: `the token is refused: ${reason}` });
  }
}

/** Of tokens, in the operator's log. */
const NAMES = { id_token: 'ID token', access_token: 'access token', logout_token: 'logout token' } as const;

function rulesFor({ use, nonce, maxAge }: GivenToken, tenant: Tenant): TokenRules {
  const login = loginOf(tenant);
  const { audience: option } = login;
  const audiences = typeof option === 'string' ? { idToken: option } : option;
  switch (use) {
    case 'id_token': {
      const clientId = login.clientId ?? missing('clientId', tenant.key);
      const audience = audiences?.idToken ?? clientId;
      return idTokenRules(login, { clientId, audience, nonce, maxAge: maxAge ?? login.maxAge });
    }
    case 'access_token':
      return accessTokenRules(login, audiences?.accessToken ?? missing('audience.accessToken', tenant.key));
    case 'logout_token':
      return logoutTokenRules(login);
  }
}

function missing(option: string, tenantKey: string): never {
  const expected = 'is required to validate this token';
  throw new ConfigurationError([{ path: `login.${option}`, expected }], tenantKey);
}
