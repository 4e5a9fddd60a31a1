import { Inject, Injectable } from '@nestjs/common';
import { LoginFailedError } from '../errors/login-failed.error.js';
import type { HttpContext } from '../http/http-context.js';
import { isRecord } from '../model/json-values.js';
import { isAddressedTo, logoutOf } from '../oidc/logout-token.js';
import { TokenValidator } from '../oidc/token-validator.service.js';
import { unverified } from '../oidc/verify-signature.js';
import { DeniedIdentities } from '../session/denied-identities.service.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { Deadlines } from '../time/deadlines.service.js';

const MAX_LENGTH = 16_384;

/** Receives logouts of the provider (OpenID Connect Back-Channel Logout 1.0). */
@Injectable()
export class BackChannelLogout {
  constructor(
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(TokenValidator) private readonly validator: TokenValidator,
    @Inject(DeniedIdentities) private readonly denied: DeniedIdentities,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Deadlines) private readonly deadlines: Deadlines,
  ) {}

  /**
   * Verifies the `logout_token` of a request and denies the identities that it names. Answers false where there is a `store` that
   * did not take it: the provider may send it again, and a token that is sent twice writes the same.
   *
   * @param tenantKey default: the only tenant, else the fixed tenant of the token's issuer and audience
   * @throws {LoginFailedError} where the token is refused
   * @throws {ExhibitorError} `unknown_tenant`, `tenant_required`; `service_unavailable`, `deadline_exceeded` where the keys
   * cannot be fetched
   */
  async receive(http: HttpContext, tenantKey: string | undefined): Promise<boolean> {
    const token = readLogoutToken(http);
    const tenant = await this.tenants.resolve(tenantKey ?? this.addresseeOf(token)?.key);
    const { payload } = await this.deadlines.within(tenant.http.deadline, (deadline) =>
      this.validator.verify(tenant, { use: 'logout_token', token }, deadline),
    );
    return this.denied.denyLogout(logoutOf(payload, tenant.registrations, this.clock.epochMs()));
  }

  /** The fixed tenant that an unverified token is for. It only selects the key that verifies the token. */
  private addresseeOf(token: string): Tenant | undefined {
    const claims = unverified(token, 'claims');
    return this.tenants.onlyKey === undefined
      ? this.tenants.fixed.find(
          ({ login }) => login !== undefined && isAddressedTo(claims, login.issuer, login.clientId),
        )
      : undefined;
  }
}

function readLogoutToken({ request: { method, body } }: HttpContext): string {
  const token = method === 'POST' && isRecord(body) ? body['logout_token'] : undefined;
  if (typeof token === 'string' && token.length <= MAX_LENGTH) {
    return token;
  }
  throw new LoginFailedError('token_type', 'the request has no logout_token');
}
