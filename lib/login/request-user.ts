/**
 * Who has set `request.user`, and so where its identity was found ({@link FoundIdentity.mode}):
 *
 * | mode     | `request.user` is                                                                              |
 * | -------- | ---------------------------------------------------------------------------------------------- |
 * | `cookie` | the user that a guard of this request has set for a cookie, or for the identity of an override |
 * | `bearer` | the user that a guard has set for a bearer token, of this request or of an earlier one         |
 * | `host`   | anything else that the host has set, or the copy of it that a guard of this request has set    |
 *
 * An override whose `super.getIdentity()` found an identity of the same tenant keeps the mode of that one.
 */
import { isDeepStrictEqual } from 'node:util';
import type { HttpContext } from '../browser/http-context.js';
import type { SessionMode } from '../config/exhibitor-options.interface.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { frozenCopy, isRecord } from '../model/json-values.js';
import type { FoundIdentity } from './identity.js';

/** A user whom a guard has set, with its identity as it was found last. */
interface UserOfGuard {
  readonly user: ExhibitorIdentity;
  found: FoundIdentity;
}

/**
 * The users of a request; fields of GraphQL may have several. Kept on the request, not on the user, so that copies and
 * logs of a user have nothing of the tenant. Not in a WeakMap, whose values outlive a scavenge: that took 2 µs a request.
 */
const USERS = Symbol('nestjs-exhibitor.users');

type GuardedRequest = ExhibitorRequest & { [USERS]?: readonly UserOfGuard[] };

/**
 * Users from bearer tokens of all requests: the host may set the same object at a later one. A copy of it is a user of the host. Cookies
 * need no such list: no `session` has both `cookie` and `host`.
 */
const TOKEN_USERS = new WeakSet<object>();

/**
 * Sets `request.user` to an object of this request, to which the host may add members; its claims are read-only. An earlier guard may have
 * set one for the same identity: that is set again, with what the host has added.
 */
export function setUser(http: HttpContext, found: FoundIdentity): ExhibitorIdentity {
  const request: GuardedRequest = http.request;
  const users = request[USERS] ?? [];
  const earlier = users.find((one) => isUserOf(one, found, request.user));
  if (earlier !== undefined) {
    earlier.found = found;
    request.user = earlier.user;
    return earlier.user;
  }
  const user = newUser(found);
  request[USERS] = [...users, { user, found }];
  request.user = user;
  return user;
}

/** True where a guard has found the same: another address, or other claims, are another user, whose exhibitors are not these. */
function isUserOf({ user, found: before }: UserOfGuard, found: FoundIdentity, current: unknown): boolean {
  const { identity, tenant, mode } = found;
  // The identity of a host was read from `request.user`.
  const mayBe = mode !== 'host' || user === current;
  return (
    mayBe &&
    before.mode === mode &&
    before.tenant.stateKey === tenant.stateKey &&
    before.identity.id === identity.id &&
    before.identity.subject === identity.subject &&
    before.identity.issuer === identity.issuer &&
    before.identity.email === identity.email &&
    isDeepStrictEqual(before.identity.claims, identity.claims)
  );
}

function newUser({ identity, mode }: FoundIdentity): ExhibitorIdentity {
  const { claims } = identity;
  // The claims in the session of a host must not become read-only.
  const user = { ...identity, claims: Object.isFrozen(claims) ? claims : frozenCopy(claims) };
  if (mode === 'bearer') {
    TOKEN_USERS.add(user);
  }
  return user;
}

/** The identity of a user whom a guard has set for this request. */
export function foundOf(request: GuardedRequest, user: unknown): FoundIdentity | undefined {
  return request[USERS]?.find((one) => one.user === user)?.found;
}

/** `request.user` where it is a user of the host. */
export function hostUserOf({ request }: Pick<HttpContext, 'request'>): object | undefined {
  const { user } = request;
  return isRecord(user) && modeOf(request, user) === 'host' ? user : undefined;
}

function modeOf(request: GuardedRequest, user: object): SessionMode {
  return TOKEN_USERS.has(user) ? 'bearer' : (foundOf(request, user)?.mode ?? 'host');
}
