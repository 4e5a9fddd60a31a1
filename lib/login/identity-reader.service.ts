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
import { Clock } from '../call/clock.js';
import { BearerIdentities, bearerTokenOf } from './bearer-identities.service.js';
import { IdentityCookie } from './identity-cookie.service.js';
import { IdTokenCookie, type KeptIdToken } from './id-token-cookie.service.js';
import { ENDLESS, isIdentityOf, parseIdentity, type FoundIdentity, type KeptIdentity } from './identity.js';
import { hostUserOf } from './request-user.js';

/** The logins of a request, which may have ended. */
interface KeptLogins {
  /** The user of the host first, then those of cookies. An identity and its ID token are one login. */
  identities: KeptIdentity[];
  idToken: KeptIdToken | undefined;
}

/** Finds the identity of a request: in the cookie, in `request.user` of the host, or by its bearer token. */
@Injectable()
export class IdentityReader {
  readonly #modes: readonly SessionMode[];
  /** Longest time that a login lives, in ms. */
  readonly #longest: number;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(IdentityCookie) private readonly cookie: IdentityCookie,
    @Inject(IdTokenCookie) private readonly idTokens: IdTokenCookie,
    @Inject(BearerIdentities) private readonly bearer: BearerIdentities,
    @Inject(EndedLogins) private readonly ended: EndedLogins,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(ProblemLog) private readonly log: ProblemLog,
  ) {
    this.#modes = settings.session;
    this.#longest = settings.cookies.absoluteTtl;
  }

  /**
   * The identity of a request. Changes nothing for the browser.
   *
   * @param tenantKey tenant the identity must belong to; `undefined` accepts the tenant of the identity
   */
  async read(http: HttpContext, tenantKey: string | undefined): Promise<FoundIdentity | undefined> {
    for (const mode of this.#modes) {
      const found =
        mode === 'bearer'
          ? await this.#readBearer(http, tenantKey)
          : await this.#readKept(http, tenantKey, mode);
      if (found !== undefined) {
        return found;
      }
    }
    return undefined;
  }

  /**
   * All that the browser carries and the host keeps, expired ones too: a new login replaces them, a logout ends them. Their tenants,
   * which may be slow to find, are not asked for.
   */
  async readAll(http: HttpContext): Promise<KeptLogins> {
    const idToken = await this.idTokens.read(http);
    const ofHost = this.#modes.includes('host') ? parseIdentity(hostUserOf(http)) : undefined;
    const latest = this.clock.epochMs() + this.#longest;
    // The identity of a host, or of an ID token, may have no end.
    const withEnd = (identity: ExhibitorIdentity | undefined): KeptIdentity[] =>
      identity === undefined ? [] : [{ identity, endsAt: Math.min(identity.expiresAt, latest) }];
    const kept = [...withEnd(ofHost), ...(await this.cookie.readAll(http)), ...withEnd(idToken?.identity)];
    const isFirst = ({ identity: { id } }: KeptIdentity, at: number): boolean =>
      kept.findIndex(({ identity }) => identity.id === id) === at;
    return { identities: kept.filter(isFirst), idToken };
  }

  /** A kept identity counts where it belongs to the tenant of the request, and has neither expired nor ended. */
  async #readKept(
    http: HttpContext,
    tenantKey: string | undefined,
    mode: 'cookie' | 'host',
  ): Promise<FoundIdentity | undefined> {
    const kept = mode === 'cookie' ? await this.cookie.read(http) : this.#readHost(http);
    if (kept === undefined) {
      return undefined;
    }
    const { identity, endsAt } = kept;
    try {
      const tenant = await this.tenants.find(tenantKey ?? identity.tenant);
      const isOwn = isIdentityOf(tenant, identity, this.clock.epochMs());
      if (isOwn && !(await this.ended.has(identity, tenant.registration))) {
        return { identity, tenant, mode, endsAt };
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

  #readHost(http: HttpContext): Pick<FoundIdentity, 'identity' | 'endsAt'> | undefined {
    const user = hostUserOf(http);
    const identity = parseIdentity(user);
    if (identity?.expiresAt === ENDLESS && identity.loggedInAt !== undefined) {
      // Its login ends as any other: an end of it is remembered no longer.
      identity.expiresAt = identity.loggedInAt + this.#longest;
    }
    if (identity !== undefined) {
      return { identity };
    }
    if (user !== undefined) {
      // The serializer of its session may keep an id only.
      this.log.warn(unusableUser(Object.keys(user)), 'request.user');
    }
    return undefined;
  }

  async #readBearer(http: HttpContext, tenantKey?: string): Promise<FoundIdentity | undefined> {
    const token = bearerTokenOf(http);
    if (token === undefined) {
      return undefined;
    }
    const tenant = await this.tenants.resolve(tenantKey);
    const identity = await this.bearer.identify(tenant, token);
    return { identity, tenant, mode: 'bearer' };
  }
}
