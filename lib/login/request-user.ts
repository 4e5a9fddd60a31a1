/** What is in `request.user`: the object that a guard has put there for an identity, or a user whom the host has set. */
import type { HttpContext } from '../browser/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { frozenCopy, isRecord } from '../model/json-values.js';
import type { FoundIdentity } from './identity.js';

/** A user whom a guard has set, and the identity as it was found. */
interface GuardedUser {
  readonly user: ExhibitorIdentity;
  found: FoundIdentity;
}

/**
 * The users whom guards have set for a request; fields of GraphQL may have several. Kept on the request, not on the user, so that copies
 * and logs of a user have nothing of the tenant. Not in a WeakMap, whose values outlive a scavenge: that took 2 µs a request.
 */
const USERS = Symbol('nestjs-exhibitor.users');

type GuardedRequest = ExhibitorRequest & { [USERS]?: GuardedUser[] };

/** Users from a bearer token. A host may set the same object at a later request; a copy of it is a user of the host. */
const ofTokens = new WeakSet<object>();

/**
 * Sets `request.user` to an object of this request, to which the host may add members; its claims are read-only. A user whom an
 * earlier guard of the request has set for the same identity stays.
 */
export function setUser(http: HttpContext, found: FoundIdentity): ExhibitorIdentity {
  const request: GuardedRequest = http.request;
  const users = request[USERS] ?? [];
  const known = users.find((one) => isSame(one.found, found));
  // An identity of the host was read from `request.user`: where that is another object than the guard has set, it is of the host.
  const stays = found.mode !== 'host' || known?.user === request.user;
  if (known !== undefined && stays) {
    // The host may have changed members of its user since: those that were read now count.
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
  // The claims in the session of a host must not become read-only.
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

/** `request.user` where the host has set it; `undefined` where a guard has, from a cookie or a bearer token. */
export function hostUserOf({ request }: Pick<HttpContext, 'request'>): object | undefined {
  const { user } = request;
  const mode = foundOf(request, user)?.mode ?? 'host';
  return isRecord(user) && mode === 'host' && !ofTokens.has(user) ? user : undefined;
}
