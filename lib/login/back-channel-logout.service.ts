import { Inject, Injectable } from '@nestjs/common';
import { LoginFailedError } from '../errors/login-failed.error.js';
import type { HttpContext } from '../http/http-context.js';
import { digestOf } from '../model/digest.js';
import { isRecord } from '../model/json-values.js';
import { isAddressedTo, logoutOf, type ProviderLogout } from '../oidc/logout-token.js';
import { TokenValidator } from '../oidc/token-validator.service.js';
import { unverified } from '../oidc/verify-signature.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { DeniedIdentities } from '../session/denied-identities.service.js';
import { CLOCK_MARGIN, ReplayCache } from '../store/replay-cache.service.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { Deadlines } from '../time/deadlines.service.js';

const MAX_LENGTH = 16_384;

/** Receives logouts of the provider (OpenID Connect Back-Channel Logout 1.0). */
@Injectable()
export class BackChannelLogout {
  private readonly absoluteTtl: number;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(TokenValidator) private readonly validator: TokenValidator,
    @Inject(DeniedIdentities) private readonly denied: DeniedIdentities,
    @Inject(ReplayCache) private readonly replays: ReplayCache,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Deadlines) private readonly deadlines: Deadlines,
  ) {
    this.absoluteTtl = settings.cookies.absoluteTtl;
  }

  /**
   * Verifies the `logout_token` of a request and denies the identities that it names.
   *
   * @param tenantKey default: the only tenant, else the fixed tenant of the token's issuer and audience
   * @throws {LoginFailedError} where the token is refused
   * @throws {ExhibitorError} `unknown_tenant`, `tenant_required`; `service_unavailable`, `deadline_exceeded` where the keys
   * cannot be fetched
   */
  async receive(http: HttpContext, tenantKey: string | undefined): Promise<void> {
    const token = readLogoutToken(http);
    const tenant = await this.tenants.resolve(tenantKey ?? this.addresseeOf(token)?.key);
    const { payload } = await this.deadlines.within(tenant.http.deadline, (deadline) =>
      this.validator.verify(tenant, { use: 'logout_token', token }, deadline),
    );
    await this.accept(tenant, logoutOf(payload, tenant.registrations, this.clock.epochMs()));
  }

  /**
   * The token is spent after its logouts are written: if the process ends in between, the provider can send it again. A token
   * that is sent twice at the same time writes the same logouts.
   */
  private async accept(tenant: Tenant, logout: ProviderLogout): Promise<void> {
    const name = digestOf(JSON.stringify([logout.registrations[0] ?? '', logout.tokenId]));
    const spent = { kind: 'spent-logout-token', name } as const;
    if ((await this.replays.find(spent)).value !== undefined) {
      throw alreadyUsed(tenant);
    }
    await this.denied.denyLogout(tenant.key, logout);
    // Once all identities that it ended have expired, the token does nothing, even if it is still valid.
    const lifetime = Math.min(logout.expiresAt - this.clock.epochMs(), this.absoluteTtl);
    if (!(await this.replays.record(spent, tenant.key, Math.max(0, lifetime) + CLOCK_MARGIN))) {
      throw alreadyUsed(tenant);
    }
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

function alreadyUsed({ key }: Tenant): LoginFailedError {
  return new LoginFailedError('state', 'the logout token was used before', { tenant: key });
}
