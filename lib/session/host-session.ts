/** The session of the host (`session: 'host'`), with or without Passport, on Express and Fastify. */
import { ConfigurationError } from '../errors/configuration.error.js';
import type { HttpContext } from '../http/http-context.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import { freezeJson, isRecord } from '../model/json-values.js';
import type { SessionState } from './session-state.interface.js';
import { ownerOf, parseIdentity, type IdentityData } from './stored-identity.js';
import { parseSelections, type Selections } from './stored-selections.js';

const SELECTIONS = 'exhibitorSelections';

const ID_TOKEN = 'exhibitorIdToken';

/** Member that is set before `regenerate` is called, to see whether it empties the session at once. */
const MARK = 'exhibitorMark';

/** The sessions of the users that guards have set as `request.user`. */
const sessions = new WeakMap<object, SessionState>();

/**
 * Sets `request.user` to an object of this request, to which the host may add members; its claims are read-only. A user whom an
 * earlier guard of the request has set stays.
 */
export function setUser({ request }: HttpContext, session: SessionState): ExhibitorIdentity {
  const { identity, mode } = session;
  const { user } = request;
  const before = isIdentity(user) ? sessions.get(user) : undefined;
  const isSame =
    before?.mode === mode && before.identity.id === identity.id && before.tenant === session.tenant;
  const own = isSame && isIdentity(user) ? user : { ...identity };
  freezeJson(own.claims);
  sessions.set(own, session);
  request.user = own;
  return own;
}

/** The session of a user whom a guard has set as `request.user`. */
export function sessionOf(user: object): SessionState | undefined {
  return sessions.get(user);
}

/** Only of a user in {@link sessions}. */
function isIdentity(user: unknown): user is ExhibitorIdentity {
  return isRecord(user) && sessions.has(user);
}

/**
 * The user whom the host has set as `request.user`. One that an earlier guard has set there, from a cookie or a bearer token,
 * has no session of the host.
 */
export function readHostUser({ request: { user } }: HttpContext): IdentityData | undefined {
  return isIdentity(user) && sessions.get(user)?.mode !== 'host' ? undefined : parseIdentity(user);
}

/**
 * Stores the identity in the host's session and changes the session id, so that an id that was set before the login has no
 * access to it (session fixation). Passport's `logIn` does both; without it, the host stores the identity.
 */
export async function logInToHost({ request }: HttpContext, identity: ExhibitorIdentity): Promise<void> {
  if (!(await callToEnd(request, 'logIn', identity))) {
    await callToEnd(request.session, 'regenerate');
  }
}

export async function logOutOfHost(http: HttpContext): Promise<void> {
  const { session } = http.request;
  if (isRecord(session)) {
    session[SELECTIONS] = undefined;
    session[ID_TOKEN] = undefined;
  }
  if (!(await callToEnd(http.request, 'logOut'))) {
    await callToEnd(http.request.session, 'regenerate');
  }
}

export function readIdToken({ request: { session } }: HttpContext): string | undefined {
  const sealed = isRecord(session) ? session[ID_TOKEN] : undefined;
  return typeof sealed === 'string' ? sealed : undefined;
}

/** Stores the sealed ID token; `undefined` removes it. A host without a session keeps none. */
export function writeIdToken({ request: { session } }: HttpContext, sealed: string | undefined): void {
  if (isRecord(session)) {
    // Not deleted: in a session of `@fastify/secure-session` that has no effect.
    session[ID_TOKEN] = sealed;
  }
}

export function readSelections({ request: { session } }: HttpContext, identity: IdentityData): Selections {
  const stored = isRecord(session) ? session[SELECTIONS] : undefined;
  return isRecord(stored) && stored['owner'] === ownerOf(identity)
    ? parseSelections(stored['selections'])
    : [];
}

/**
 * Stores the selections of the user. Selections of another user in the same session are removed.
 *
 * @throws {ExhibitorError} `configuration_invalid` without a session
 */
export function writeSelections(
  { request: { session } }: HttpContext,
  identity: IdentityData,
  selections: Selections,
): void {
  if (isRecord(session)) {
    session[SELECTIONS] = { owner: ownerOf(identity), selections };
    return;
  }
  throw new ConfigurationError([
    {
      path: 'session',
      expected: "'host' needs a session middleware to store a selection: request.session is not set",
    },
  ]);
}

/**
 * Calls a method that ends by callback or by promise, as those of sessions do. Answers false where the target has no such
 * method. A session of `@fastify/secure-session` is all in its cookie: `regenerate` empties it at once and never calls back.
 * Neither the parameters nor the result of the method show that. So a session that has lost its mark, and has no id, is not
 * waited for; with an id it is, since that may change later (session fixation).
 */
async function callToEnd(target: unknown, name: string, ...values: unknown[]): Promise<boolean> {
  const members: Record<string, unknown> = Object(target);
  const method = members[name];
  if (typeof method !== 'function') {
    return false;
  }
  const isSession = name === 'regenerate';
  if (isSession) {
    members[MARK] = true;
  }
  await new Promise<void>((resolve, reject) => {
    const done = (error?: unknown): void =>
      error === undefined || error === null ? resolve() : reject(error);
    const result: unknown = method.call(target, ...values, done);
    if (result instanceof Promise) {
      result.then(() => resolve(), reject);
    } else if (isSession && [MARK, 'id', 'sessionId'].every((member) => members[member] === undefined)) {
      resolve();
    }
  });
  return true;
}
