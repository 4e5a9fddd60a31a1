import { Inject, Injectable } from '@nestjs/common';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import type { HttpContext } from '../browser/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { frozenCopy, isRecord } from '../model/json-values.js';
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
import { isIdentityOf, parseIdentity, type FoundIdentity, type KeptIdentity } from './identity.js';

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
    const ofHost = this.#modes.includes('host') ? readHostUser(http) : undefined;
    const latest = this.clock.epochMs() + this.#longest;
    // The identity of a host, or of an ID token, may have no end.
    const withEnd = (identity: ExhibitorIdentity | undefined): KeptIdentity[] =>
      identity === undefined ? [] : [{ identity, endsAt: Math.min(identity.expiresAt, latest) }];
    const kept = [...withEnd(ofHost), ...(await this.cookie.readAll(http)), ...withEnd(idToken?.identity)];
    const ids = kept.map(({ identity }) => identity.id);
    return { identities: kept.filter((_, at) => ids.indexOf(ids[at] ?? '') === at), idToken };
  }

  /** A kept identity counts where it belongs to the tenant of the request, and has neither expired nor ended. */
  async #readKept(
    http: HttpContext,
    tenantKey: string | undefined,
    mode: 'cookie' | 'host',
  ): Promise<FoundIdentity | undefined> {
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
        return { identity, tenant, mode, endsAt: opened?.endsAt };
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

/**
 * The users whom guards have set for a request, with their identities as found; fields of GraphQL may have several. Not on the user, so
 * that copies and logs of it have nothing of the tenant. Not in a WeakMap, whose values outlive a scavenge: that took 2 µs a request.
 */
const USERS = Symbol('nestjs-exhibitor.users');

type GuardedRequest = ExhibitorRequest & { [USERS]?: { user: ExhibitorIdentity; found: FoundIdentity }[] };

/** Users from a bearer token. A host may set the same object at a later request; a copy of it is a user of the host. */
const ofTokens = new WeakSet<object>();

/**
 * Sets `request.user` to an object of this request, to which the host may add members; its claims are read-only. A user whom an
 * earlier guard of the request has set stays.
 */
export function setUser(http: HttpContext, found: FoundIdentity): ExhibitorIdentity {
  const request: GuardedRequest = http.request;
  const users = request[USERS] ?? [];
  const known = users.find((one) => isSame(one.found, found));
  // A host may have set another object since, or changed members of this one.
  if (known !== undefined && (found.mode !== 'host' || known.user === request.user)) {
    known.found = found;
    request.user = known.user;
    return known.user;
  }
  const user = newUser(found);
  request[USERS] = [...users.filter((one) => one !== known), { user, found }];
  request.user = user;
  return user;
}

function newUser({ identity, mode }: FoundIdentity): ExhibitorIdentity {
  const user = { ...identity };
  // Those in the session of a host must not become read-only.
  if (!Object.isFrozen(user.claims)) {
    user.claims = frozenCopy(user.claims);
  }
  if (mode === 'bearer') {
    ofTokens.add(user);
  }
  return user;
}

/** By subject and issuer too, since the identity of a host may have no id. */
function isSame(before: FoundIdentity, { identity, tenant, mode }: FoundIdentity): boolean {
  return (
    before.mode === mode &&
    before.tenant.stateKey === tenant.stateKey &&
    before.identity.id === identity.id &&
    before.identity.subject === identity.subject &&
    before.identity.issuer === identity.issuer
  );
}

/** The identity of a user whom a guard has set for this request. */
export function foundOf(request: GuardedRequest, user: unknown): FoundIdentity | undefined {
  return request[USERS]?.find((one) => one.user === user)?.found;
}

/** What the host has set as `request.user`; `undefined` for one whom a guard has set from a cookie or a bearer token. */
function hostUserOf({ request }: HttpContext): object | undefined {
  const { user } = request;
  const mode = foundOf(request, user)?.mode ?? 'host';
  return isRecord(user) && mode === 'host' && !ofTokens.has(user) ? user : undefined;
}

/** The user whom the host has set. */
function readHostUser(http: HttpContext): ExhibitorIdentity | undefined {
  return parseIdentity(hostUserOf(http));
}
