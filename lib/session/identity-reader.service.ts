import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isSecure } from '../http/cookies.js';
import type { HttpContext } from '../http/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { SessionMode } from '../options/exhibitor-options.interface.js';
import { EndedLogins } from '../store/ended-logins.service.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { BearerIdentities, bearerTokenOf } from './bearer-identities.service.js';
import { IdentityCookie } from './identity-cookie.service.js';
import { readHostUser, type SessionState } from './request-user.js';
import type { IdentityData } from './stored-identity.js';

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
  ) {
    this.#modes = settings.session;
  }

  /** True where requests may carry a bearer token. Refusals then have a `WWW-Authenticate` header (RFC 6750 §3). */
  get acceptsBearer(): boolean {
    return this.#modes.includes('bearer');
  }

  /**
   * The user of a request.
   *
   * @param tenantKey tenant the identity must belong to; `undefined` accepts the tenant of the identity
   * @throws {LoginFailedError} where a bearer token is refused
   */
  async read(http: HttpContext, tenantKey: string | undefined): Promise<SessionState | undefined> {
    for (const mode of this.#modes) {
      const state = await this.#readFrom(mode, http, tenantKey);
      if (state !== undefined) {
        return state;
      }
    }
    return undefined;
  }

  #readFrom(mode: SessionMode, http: HttpContext, tenantKey?: string): Promise<SessionState | undefined> {
    switch (mode) {
      case 'cookie':
        return this.#readCookie(http, tenantKey);
      case 'host':
        return this.#readHost(http, tenantKey);
      case 'bearer':
        return this.#readBearer(http, tenantKey);
    }
  }

  async #readCookie(http: HttpContext, tenantKey?: string): Promise<SessionState | undefined> {
    const received = await this.cookie.read(http);
    const accepted = received && (await this.#accept(received.identity, tenantKey, received.secure));
    if (!received || !accepted || (await this.ended.has(accepted.identity, accepted.tenant.registration))) {
      return undefined;
    }
    const state: SessionState = { mode: 'cookie', endsAt: received.endsAt, ...accepted };
    await this.cookie.renew(http, state);
    return state;
  }

  async #readHost(http: HttpContext, tenantKey?: string): Promise<SessionState | undefined> {
    const data = readHostUser(http);
    const accepted = data && (await this.#accept(data, tenantKey, undefined));
    if (accepted !== undefined && !(await this.ended.has(accepted.identity, accepted.tenant.registration))) {
      return { mode: 'host', ...accepted };
    }
    if (data !== undefined && (tenantKey ?? data.tenant) === data.tenant) {
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

  /** The identity and its tenant, where it belongs to the tenant of the request and has not expired. */
  async #accept(
    data: IdentityData,
    tenantKey: string | undefined,
    secure: boolean | undefined,
  ): Promise<Pick<SessionState, 'identity' | 'tenant'> | undefined> {
    if (tenantKey !== undefined && tenantKey !== data.tenant) {
      return undefined;
    }
    try {
      const tenant = await this.tenants.find(data.tenant);
      const identity = identityFor(data, tenant, secure, this.clock.epochMs());
      return identity && { identity, tenant };
    } catch (error) {
      if (error instanceof ExhibitorError && error.code === 'unknown_tenant') {
        return undefined;
      }
      throw error;
    }
  }
}

/**
 * The identity, where it belongs to this tenant and has not expired. Issuer, client and tenant id are compared with the
 * current options: if a key is given to another customer, the logins of the former customer must not be valid. So is the
 * `redirectUri`: another host with the same `secrets` and client may have a stricter `authorize`. What is missing is not compared.
 *
 * @param secure true where its cookie has the `__Host-` prefix, which must be as the tenant's cookies have it: a sibling domain can
 * set a cookie without it; `undefined` in the host's session
 * @param now milliseconds since 1970
 */
export function identityFor(
  data: IdentityData,
  tenant: Tenant,
  secure: boolean | undefined,
  now: number,
): ExhibitorIdentity | undefined {
  const { clientId: ownClient = '', redirectUri: ownUri = '' } = tenant.login ?? {};
  const { tenantId = tenant.tenantId, clientId = ownClient, redirectUri = ownUri } = data;
  if (data.tenant !== tenant.key || tenantId !== tenant.tenantId) {
    return undefined;
  }
  if (data.issuer !== tenant.login?.issuer || clientId !== ownClient || redirectUri !== ownUri) {
    return undefined;
  }
  if (data.expiresAt <= now || (secure !== undefined && secure !== isSecure(ownUri))) {
    return undefined;
  }
  return isComplete(data) ? data : { ...data, tenantId, clientId, redirectUri };
}

/** The identity of a cookie is complete, and not copied for each request. Hosts may leave members out. */
function isComplete(data: IdentityData): data is ExhibitorIdentity {
  return data.tenantId !== undefined && data.clientId !== undefined && data.redirectUri !== undefined;
}
