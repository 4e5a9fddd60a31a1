import { Inject, Injectable } from '@nestjs/common';
import type { JWTPayload } from 'jose';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { LoginFailedError, type LoginFailureReason } from '../errors/login-failed.error.js';
import type { LoginSettings } from '../options/tenant-settings.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { Deadline } from '../time/deadline.js';
import { VerificationKeys } from './verification-keys.service.js';
import { accessTokenRefusal, idTokenRefusal, isAccessTokenType } from './token-claims.js';
import { keyIdOf, verifyToken, type VerifiedToken } from './verify-token.js';

/** What a token is, and what it must fit. */
export interface ValidateOptions {
  /** Key of the tenant. Default: the only one. */
  tenant?: string;
  use: 'id_token' | 'access_token';
  /** The nonce that was sent for an ID token. */
  nonce?: string;
}

/**
 * Validates the provider's tokens with the values of onboarding: public key, issuer and audience.
 *
 * @example
 * const { sub } = await validator.validate(token, { tenant: 'acme', use: 'access_token' });
 */
@Injectable()
export class TokenValidator {
  constructor(
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(VerificationKeys) private readonly keys: VerificationKeys,
    @Inject(Clock) private readonly clock: Clock,
  ) {}

  /**
   * The claims of a good token.
   *
   * @throws {ExhibitorError} `login_failed` with the reason of the refusal; `unknown_tenant`, `tenant_required`;
   * `configuration_invalid` where the tenant has no login or no `audience.accessToken`; `service_unavailable` or
   * `deadline_exceeded` where the keys cannot be fetched
   */
  async validate(token: string, options: ValidateOptions): Promise<JWTPayload> {
    const tenant = await this.tenants.resolve(options.tenant);
    const deadline = Deadline.start(this.clock, tenant.http.deadline);
    try {
      const verified =
        options.use === 'id_token'
          ? await this.validateIdToken(tenant, token, options.nonce, deadline)
          : await this.validateAccessToken(tenant, token, deadline);
      return verified.payload;
    } finally {
      deadline.end();
    }
  }

  /** @internal */
  async validateIdToken(
    tenant: Tenant,
    token: string,
    nonce: string | undefined,
    deadline: Deadline,
  ): Promise<VerifiedToken> {
    const login = loginOf(tenant);
    const audience =
      typeof login.audience === 'string' ? login.audience : (login.audience?.idToken ?? login.clientId);
    if (audience === undefined || login.clientId === undefined) {
      throw noAudience(tenant, 'audience.idToken');
    }
    const verified = await this.#verify(tenant, login, token, deadline);
    if (isAccessTokenType(verified.header.typ)) {
      refuse(tenant, 'token_type');
    }
    const expected = { ...login, audience, clientId: login.clientId, nonce };
    refuse(tenant, idTokenRefusal(verified.payload, expected, this.#now()));
    return verified;
  }

  /** @internal */
  async validateAccessToken(tenant: Tenant, token: string, deadline: Deadline): Promise<VerifiedToken> {
    const login = loginOf(tenant);
    const audience = typeof login.audience === 'object' ? login.audience.accessToken : undefined;
    if (audience === undefined) {
      throw noAudience(tenant, 'audience.accessToken');
    }
    const verified = await this.#verify(tenant, login, token, deadline);
    const { header, payload } = verified;
    refuse(tenant, accessTokenRefusal(payload, header.typ, { ...login, audience }, this.#now()));
    return verified;
  }

  async #verify(
    tenant: Tenant,
    login: LoginSettings,
    token: string,
    deadline: Deadline,
  ): Promise<VerifiedToken> {
    const keys = await this.keys.keysFor(tenant, login.keys, keyIdOf(token), deadline);
    return verifyToken(token, keys, login.algorithms);
  }

  #now(): number {
    return this.clock.epochMs() / 1000;
  }
}

function loginOf(tenant: Tenant): LoginSettings {
  if (tenant.login !== undefined) {
    return tenant.login;
  }
  throw new ExhibitorError('configuration_invalid', 'this tenant has no login', { tenant: tenant.key });
}

function noAudience(tenant: Tenant, option: string): ExhibitorError {
  return new ExhibitorError('configuration_invalid', `login.${option} is needed for this`, {
    tenant: tenant.key,
  });
}

function refuse(tenant: Tenant, reason: LoginFailureReason | undefined): void {
  if (reason === undefined) {
    return;
  }
  throw new LoginFailedError(reason, `the token is refused: ${reason}`, { tenant: tenant.key });
}
