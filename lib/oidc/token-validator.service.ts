import { Inject, Injectable } from '@nestjs/common';
import type { JWTPayload } from 'jose';
import { ConfigurationError } from '../errors/configuration.error.js';
import { LoginFailedError, type LoginFailureReason } from '../errors/login-failed.error.js';
import type { LoginSettings } from '../options/tenant-settings.js';
import { refusedToken, type RefusedToken, type TokenDelivery } from '../problems/login-problems.js';
import { ProblemLog } from '../problems/problem-log.service.js';
import { uselessKeys } from '../problems/provider-problems.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import { Deadlines } from '../time/deadlines.service.js';
import { logoutOf, logoutTokenRefusal, type ProviderLogout } from './logout-token.js';
import { ProviderEndpoints } from './provider-endpoints.service.js';
import {
  accessTokenRefusal,
  idTokenRefusal,
  isAccessTokenType,
  isLogoutToken,
  smallerAge,
  userInfoRefusal,
  type LoginBinding,
} from './token-claims.js';
import { unverified } from './unverified-jwt.js';
import { VerificationKeys } from './verification-keys.service.js';
import { checkHeader, verifyToken, type VerifiedToken } from './verify-token.js';

type GivenToken = Omit<RefusedToken, 'header'> & { token: string };

/** Options of {@link TokenValidator.validate}. */
export interface ValidateOptions {
  /** Key of the tenant. Default: the only one. */
  tenant?: string | undefined;
  /** Kind of the token. An ID token is not accepted as an access token, nor the reverse. */
  use: 'id_token' | 'access_token';
  /** The nonce that was sent for an ID token. */
  nonce?: string | undefined;
}

/**
 * Validates tokens of the identity provider with the values of onboarding: public key, issuer and audience.
 *
 * @example
 * const { sub } = await validator.validate(token, { tenant: 'acme', use: 'access_token' });
 */
@Injectable()
export class TokenValidator {
  readonly #tenants: TenantRegistry;
  readonly #keys: VerificationKeys;
  readonly #endpoints: ProviderEndpoints;
  readonly #clock: Clock;
  readonly #deadlines: Deadlines;
  readonly #log: ProblemLog;

  /** @internal */
  constructor(
    @Inject(TenantRegistry) tenants: TenantRegistry,
    @Inject(VerificationKeys) keys: VerificationKeys,
    @Inject(ProviderEndpoints) endpoints: ProviderEndpoints,
    @Inject(Clock) clock: Clock,
    @Inject(Deadlines) deadlines: Deadlines,
    @Inject(ProblemLog) log: ProblemLog,
  ) {
    this.#log = log;
    this.#tenants = tenants;
    this.#keys = keys;
    this.#endpoints = endpoints;
    this.#clock = clock;
    this.#deadlines = deadlines;
  }

  /**
   * The claims of a valid token.
   *
   * @throws {ExhibitorError} `login_failed` with the reason of the refusal; `unknown_tenant`, `tenant_required`;
   * `configuration_invalid` where the tenant has no login or no `audience.accessToken`; `service_unavailable` or
   * `deadline_exceeded` where the keys cannot be fetched
   */
  async validate(token: string, options: ValidateOptions): Promise<JWTPayload> {
    const tenant = await this.#tenants.resolve(options.tenant);
    const deadline = this.#deadlines.start(tenant.http.deadline);
    try {
      const verified =
        options.use === 'id_token'
          ? await this.validateIdToken(tenant, token, { nonce: options.nonce }, deadline)
          : await this.validateAccessToken(tenant, token, deadline);
      return verified.payload;
    } finally {
      deadline.end();
    }
  }

  /**
   * @param delivery who delivered the token, for the operator's log
   * @internal
   */
  async validateIdToken(
    tenant: Tenant,
    token: string,
    { nonce, maxAge }: LoginBinding,
    deadline: Deadline,
    delivery: TokenDelivery = 'client',
  ): Promise<VerifiedToken> {
    const login = loginOf(tenant);
    const { audience: option, clientId } = login;
    const audience = typeof option === 'string' ? option : (option?.idToken ?? clientId);
    if (audience === undefined || clientId === undefined) {
      throw missingOption(tenant, 'audience.idToken');
    }
    const given = { use: 'id_token', delivery, token } as const;
    const verified = await this.#verify(tenant, login, given, deadline);
    const { header, payload } = verified;
    const rules = { ...login, maxAge: smallerAge(login.maxAge, maxAge) };
    const reason =
      isAccessTokenType(header.typ) || isLogoutToken(payload, header.typ)
        ? 'token_type'
        : idTokenRefusal(payload, { ...rules, audience, clientId, nonce }, this.#now());
    this.#refuseFor(reason, tenant, rules, { ...given, payload });
    return verified;
  }

  /** @internal */
  async validateAccessToken(tenant: Tenant, token: string, deadline: Deadline): Promise<VerifiedToken> {
    const login = loginOf(tenant);
    const audience = typeof login.audience === 'object' ? login.audience.accessToken : undefined;
    if (audience === undefined) {
      throw missingOption(tenant, 'audience.accessToken');
    }
    const given = { use: 'access_token', delivery: 'client', token } as const;
    const verified = await this.#verify(tenant, login, given, deadline);
    const { header, payload } = verified;
    const reason = accessTokenRefusal(payload, header.typ, { ...login, audience }, this.#now());
    this.#refuseFor(reason, tenant, login, { ...given, payload });
    return verified;
  }

  /** The claims of a signed userinfo reply. The caller compares `sub`. @internal */
  async validateUserInfo(tenant: Tenant, token: string, deadline: Deadline): Promise<JWTPayload> {
    const login = loginOf(tenant);
    const given = { use: 'userinfo', delivery: 'provider', token } as const;
    const { header, payload } = await this.#verify(tenant, login, given, deadline);
    const own = login.clientId === undefined ? [] : [login.clientId];
    const expected = { ...login, clients: [...own, ...(login.authorizedParties ?? [])] };
    const reason = userInfoRefusal(payload, header.typ, expected, this.#now());
    this.#refuseFor(reason, tenant, login, { ...given, payload });
    return payload;
  }

  /** @internal */
  async validateLogoutToken(tenant: Tenant, token: string, deadline: Deadline): Promise<ProviderLogout> {
    const login = loginOf(tenant);
    const given = { use: 'logout_token', delivery: 'client', token } as const;
    const { header, payload } = await this.#verify(tenant, login, given, deadline);
    const expected = { ...login, clientId: login.clientId };
    const reason = logoutTokenRefusal(payload, header.typ, expected, this.#now());
    this.#refuseFor(reason, tenant, login, { ...given, payload });
    return logoutOf(payload);
  }

  async #verify(
    tenant: Tenant,
    login: LoginSettings,
    given: GivenToken,
    deadline: Deadline,
  ): Promise<VerifiedToken> {
    try {
      return await this.#verifySignature(tenant, login, given.token, deadline);
    } catch (error) {
      if (!(error instanceof LoginFailedError)) {
        throw error;
      }
      throw this.#refusal(tenant, login, error.reason, given, error.message);
    }
  }

  async #verifySignature(
    tenant: Tenant,
    login: LoginSettings,
    token: string,
    deadline: Deadline,
  ): Promise<VerifiedToken> {
    const { kid } = checkHeader(token, login.algorithms);
    const source = await this.#endpoints.keySourceOf(tenant, deadline);
    const keys = await this.#keys.keysFor(tenant, source, kid, deadline);
    try {
      return await verifyToken(token, keys, login.algorithms);
    } catch (error) {
      // Without a `kid`, whether a key is missing shows only when none fits the signature.
      if (!isSignatureFailure(error) || kid !== undefined) {
        throw error;
      }
      const newer = await this.#keys.newerKeys(tenant, source, keys, deadline);
      if (newer === undefined) {
        throw error;
      }
      return verifyToken(token, newer, login.algorithms);
    }
  }

  #refuseFor(
    reason: LoginFailureReason | undefined,
    tenant: Tenant,
    login: LoginSettings,
    refused: GivenToken,
  ): void {
    if (reason !== undefined) {
      throw this.#refusal(tenant, login, reason, refused);
    }
  }

  /** The error of a refusal, reported to the operator where an option may be the cause. */
  #refusal(
    tenant: Tenant,
    login: LoginSettings,
    reason: LoginFailureReason,
    refused: GivenToken,
    message = `the token is refused: ${reason}`,
  ): LoginFailedError {
    const header = unverified(refused.token, 'header');
    const problem =
      reason === 'provider' ? uselessKeys(message) : refusedToken(reason, { ...refused, header }, login);
    this.#log.report(tenant, problem);
    return new LoginFailedError(reason, message, { tenant: tenant.key });
  }

  #now(): number {
    return this.#clock.epochMs() / 1000;
  }
}

function isSignatureFailure(error: unknown): boolean {
  return error instanceof LoginFailedError && error.reason === 'signature';
}

function loginOf(tenant: Tenant): LoginSettings {
  if (tenant.login !== undefined) {
    return tenant.login;
  }
  throw new ConfigurationError(
    [{ path: 'login', expected: 'is required: this tenant has no login' }],
    tenant.key,
  );
}

function missingOption(tenant: Tenant, option: string): ConfigurationError {
  return new ConfigurationError(
    [{ path: `login.${option}`, expected: 'is required to validate this token' }],
    tenant.key,
  );
}
