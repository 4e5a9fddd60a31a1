/**
 * What is in `request.user`:
 *
 * | set by                                                              | recognised by                              | read as a user of the host |
 * | ------------------------------------------------------------------- | ------------------------------------------ | -------------------------- |
 * | a guard of this request, from a cookie or an override of the host   | `USERS` of the request                     | no                         |
 * | a guard of this request, from a user of the host                    | `USERS` of the request                     | yes                        |
 * | a guard, from a bearer token: of this request, or of an earlier one | `USERS` of the request, else `TOKEN_USERS` | no                         |
 * | the host: anything else                                             | neither                                    | yes                        |
 */
import type { HttpContext } from '../browser/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { frozenCopy, isRecord } from '../model/json-values.js';
import type { FoundIdentity } from './identity.js';

/**
 * The users whom guards have set for a request, each with its identity as it was found last; fields of GraphQL may have several. Kept on
 * the request, not on the user, so that copies and logs of a user have nothing of the tenant. Not in a WeakMap, whose values outlive a
 * scavenge: that took 2 µs a request.
 */
const USERS = Symbol('nestjs-exhibitor.users');

type GuardedRequest = ExhibitorRequest & { [USERS]?: { user: ExhibitorIdentity; found: FoundIdentity }[] };

/**
 * Users from bearer tokens of all requests: the host may set the same object at a later one. A copy of it is a user of the host. Cookies
 * need no such list: no `session` has both `cookie` and `host`.
 */
const TOKEN_USERS = new WeakSet<object>();

/**
 * Sets `request.user` to an object of this request, to which the host may add members; its claims are read-only. An earlier guard may have
 * set one for the same identity: that is set again.
 */
export function setUser(http: HttpContext, found: FoundIdentity): ExhibitorIdentity {
  const request: GuardedRequest = http.request;
  const users = request[USERS] ?? [];
  const earlier = users.find((one) => isSame(one.found, found));
  // With the mode `host` the identity was read from `request.user`: where that is another object, the host has set it since.
  const isReplaced = found.mode === 'host' && earlier !== undefined && request.user !== earlier.user;
  const user = earlier === undefined || isReplaced ? newUser(found) : earlier.user;
  // The host may have changed members of its user since: those that were read now count.
  request[USERS] = [...users.filter((one) => one !== earlier), { user, found }];
  request.user = user;
  return user;
}

function newUser({ identity, mode }: FoundIdentity): ExhibitorIdentity {
  const user = { ...identity };
  // The claims in the session of a host must not become read-only.
  if (!Object.isFrozen(user.claims)) {
    user.claims = frozenCopy(user.claims);
  }
  if (mode === 'bearer') {
    TOKEN_USERS.add(user);
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

/** `request.user` where it is a user of the host; `undefined` where it is that of a cookie or a bearer token. */
export function hostUserOf({ request }: Pick<HttpContext, 'request'>): object | undefined {
  const { user } = request;
  const mode = foundOf(request, user)?.mode;
  const isOfHost = mode === undefined || mode === 'host';
  return isRecord(user) && isOfHost && !TOKEN_USERS.has(user) ? user : undefined;
}
