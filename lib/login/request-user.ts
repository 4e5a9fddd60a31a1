/** The user of a request: `request.user`, which guards set, and which the host sets with `session: 'host'`. */
import { ConfigurationError } from '../errors/configuration.error.js';
import type { HttpContext } from '../browser/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import { frozenCopy, isRecord } from '../model/json-values.js';
import type { SessionMode } from '../config/exhibitor-options.interface.js';
import type { Tenant } from '../config/tenant.js';
import { parseIdentity } from './stored-identity.js';

/** The user of a request. */
export interface SessionState {
  identity: ExhibitorIdentity;
  tenant: Tenant;
  /** Where the identity was found. */
  mode: SessionMode;
}

/**
 * The users whom guards have set for a request, with their sessions; fields of GraphQL may have several. Not on the user, so that copies
 * and logs of it have nothing of the session. Not in a WeakMap, whose values outlive a scavenge: that took 2 µs a request.
 */
const USERS = Symbol('nestjs-exhibitor.users');

type GuardedRequest = ExhibitorRequest & { [USERS]?: { user: ExhibitorIdentity; session: SessionState }[] };

/** Users from a cookie or a bearer token. A host may set the same object at a later request. A copy of it is a user of the host. */
const notOfHost = new WeakSet<object>();

/**
 * Sets `request.user` to an object of this request, to which the host may add members; its claims are read-only. A user whom an
 * earlier guard of the request has set stays.
 */
export function setUser(http: HttpContext, session: SessionState): ExhibitorIdentity {
  const request: GuardedRequest = http.request;
  const users = request[USERS] ?? [];
  const known = users.find((one) => isSame(one.session, session));
  // A host may have set another object since, or changed members of this one.
  if (known !== undefined && (session.mode !== 'host' || known.user === request.user)) {
    known.session = session;
    request.user = known.user;
    return known.user;
  }
  const user = newUser(session);
  request[USERS] = [...users.filter((one) => one !== known), { user, session }];
  request.user = user;
  return user;
}

function newUser({ identity, mode }: SessionState): ExhibitorIdentity {
  const user = { ...identity };
  // Those in the session of a host must not become read-only.
  if (!Object.isFrozen(user.claims)) {
    user.claims = frozenCopy(user.claims);
  }
  if (mode !== 'host') {
    notOfHost.add(user);
  }
  return user;
}

/** By subject and issuer too, since the identity of a host may have no id. */
function isSame(before: SessionState, { identity, tenant, mode }: SessionState): boolean {
  return (
    before.mode === mode &&
    before.tenant.stateKey === tenant.stateKey &&
    before.identity.id === identity.id &&
    before.identity.subject === identity.subject &&
    before.identity.issuer === identity.issuer
  );
}

/** The session of a user whom a guard has set for this request. */
export function sessionOf(request: GuardedRequest, user: unknown): SessionState | undefined {
  return request[USERS]?.find((one) => one.user === user)?.session;
}

/** What the host has set as `request.user`; `undefined` for one whom a guard has set from a cookie or a bearer token. */
export function hostUserOf({ request: { user } }: HttpContext): object | undefined {
  return isRecord(user) && !notOfHost.has(user) ? user : undefined;
}

/** The user whom the host has set. */
export function readHostUser(http: HttpContext): ExhibitorIdentity | undefined {
  return parseIdentity(hostUserOf(http));
}

/**
 * Calls a method of Passport, which ends by callback, or of `@fastify/passport`, which answers a promise.
 *
 * @param instead method of a guard that hosts without Passport override
 */
export async function callPassport(
  { request }: HttpContext,
  name: 'logIn' | 'logOut',
  instead: string,
  ...values: unknown[]
): Promise<void> {
  const method: unknown = Object(request)[name];
  if (typeof method !== 'function') {
    const expected = `'host' needs request.${name} of Passport, or ${instead} of your own`;
    throw new ConfigurationError([{ path: 'session', expected }]);
  }
  await new Promise<void>((resolve, reject) => {
    const done = (error?: unknown): void =>
      error === undefined || error === null ? resolve() : reject(error);
    const result: unknown = method.call(request, ...values, done);
    if (result instanceof Promise) {
      result.then(() => resolve(), reject);
    }
  });
}
