import { Inject, Injectable } from '@nestjs/common';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import type { HttpContext } from '../browser/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import type { SessionMode } from '../config/exhibitor-options.interface.js';
import { unusableUser } from '../config/problems/host-problems.js';
import { ProblemLog } from '../config/problems/problem-log.service.js';
import { EndedLogins } from './ended-logins.service.js';
import { TenantRegistry } from '../config/tenant-registry.service.js';
import type { Tenant } from '../config/tenant.js';
import { Clock } from '../call/clock.js';
import { BearerIdentities, bearerTokenOf } from './bearer-identities.service.js';
import { IdentityCookie } from './identity-cookie.service.js';
import { hostUserOf, readHostUser, type SessionState } from './request-user.js';

/** Finds the user of a request in the cookie, the host's session or the bearer token. */
@Injectable()
export class IdentityReader {
  readonly #modes: readonly SessionMode[];

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(IdentityCookie) private readonly cookie: IdentityCookie,
    @Inject(BearerIdentities) private readonly bearer: BearerIdentities,
    @Inject(EndedLogins) private readonly ended: EndedLogins,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {
    this.#modes = settings.session;
  }

  /**
   * The user of a request.
   *
   * @param tenantKey tenant the identity must belong to; `undefined` accepts the tenant of the identity
   */
  async read(http: HttpContext, tenantKey: string | undefined): Promise<SessionState | undefined> {
    for (const mode of this.#modes) {
      const state =
        mode === 'bearer'
          ? await this.#readBearer(http, tenantKey)
          : await this.#readKept(http, tenantKey, mode);
      if (state !== undefined) {
        return state;
      }
    }
    return undefined;
  }

  /** A kept identity counts where it belongs to the tenant of the request, and has neither expired nor ended. */
  async #readKept(
    http: HttpContext,
    tenantKey: string | undefined,
    mode: 'cookie' | 'host',
  ): Promise<SessionState | undefined> {
    const opened = mode === 'cookie' ? await this.cookie.read(http) : undefined;
    const identity = mode === 'cookie' ? opened?.identity : readHostUser(http);
    if (identity === undefined) {
      const unusable = mode === 'host' ? hostUserOf(http) : undefined;
      if (unusable !== undefined) {
        // The serializer of its session may keep an id only.
        this.log.warn(unusableUser(Object.keys(unusable)), 'request.user');
      }
      return undefined;
    }
    try {
      const tenant = await this.tenants.find(tenantKey ?? identity.tenant);
      const isOwn = isIdentityOf(tenant, identity, this.clock.epochMs());
      if (isOwn && !(await this.ended.has(identity, tenant.registration))) {
        const state = { identity, tenant, mode };
        if (opened !== undefined) {
          await this.cookie.renew(http, state, opened.endsAt);
        }
        return state;
      }
    } catch (error) {
      if (!isExhibitorError(error) || error.code !== 'unknown_tenant') {
        throw error;
      }
    }
    if (mode === 'host') {
      // The handler of a public page must not take this one for a user.
      http.request.user = undefined;
    }
    return undefined;
  }

  async #readBearer(http: HttpContext, tenantKey?: string): Promise<SessionState | undefined> {
    const token = bearerTokenOf(http);
    if (token === undefined) {
      return undefined;
    }
    const tenant = await this.tenants.resolve(tenantKey);
    const identity = await this.bearer.identify(tenant, token);
    return { identity, tenant, mode: 'bearer' };
  }
}

/**
 * True where the identity belongs to this tenant and has not expired. Issuer, client and tenant id are compared with the
 * current options: if a key is given to another customer, the logins of the former customer must not be valid. So is the
 * `redirectUri`: another host with the same `secrets` and client may have a less strict `authorize`.
 *
 * @param now milliseconds since 1970
 */
export function isIdentityOf(tenant: Tenant, identity: ExhibitorIdentity, now: number): boolean {
  const { key, tenantId, login } = tenant;
  return (
    identity.tenant === key &&
    identity.issuer === login?.issuer &&
    fits(identity.tenantId, tenantId) &&
    fits(identity.clientId, login.clientId) &&
    fits(identity.redirectUri, login.redirectUri) &&
    identity.expiresAt > now
  );
}

/** Empty is what a host left out of the identity that it keeps. It is not compared. */
function fits(given: string, own: string | undefined): boolean {
  return given === '' || given === own;
}
