import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import type { HttpContext } from '../http/http-context.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { SessionMode } from '../options/exhibitor-options.interface.js';
import { EndedLogins } from '../store/ended-logins.service.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import { Clock } from '../time/clock.js';
import { BearerIdentities, bearerTokenOf } from './bearer-identities.service.js';
import { IdentityCookie } from './identity-cookie.service.js';
import { readHostUser, type SessionState } from './request-user.js';
import { identityFor, type IdentityData } from './stored-identity.js';

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
    if (!received || !accepted || (await this.ended.has(accepted.identity))) {
      return undefined;
    }
    const state: SessionState = { mode: 'cookie', endsAt: received.endsAt, ...accepted };
    await this.cookie.renew(http, state);
    return state;
  }

  async #readHost(http: HttpContext, tenantKey?: string): Promise<SessionState | undefined> {
    const data = readHostUser(http);
    const accepted = data && (await this.#accept(data, tenantKey, undefined));
    if (accepted !== undefined && !(await this.ended.has(accepted.identity))) {
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
