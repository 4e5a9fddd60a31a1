/** The host's own session (`session: 'host'`): Passport's `logIn` where there is one, on Express and on Fastify. */
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { HttpContext } from '../http/http-context.js';
import { parseSelections, type Selections } from './stored-identity.js';

/** Where the choices are kept in `request.session`. */
const SELECTIONS = 'exhibitorSelections';

type Callback = (error?: unknown) => void;

/**
 * Hands the identity to the host's session and changes the session id, so that one that was planted before the login
 * is worth nothing (session fixation). Passport's `logIn` does both.
 */
export async function logInToHost(http: HttpContext, identity: ExhibitorIdentity): Promise<void> {
  const { request } = http;
  if (await callMethod(request, 'logIn', identity)) {
    return;
  }
  await callMethod(request.session, 'regenerate');
}

/** Ends the host's session of this person. */
export async function logOutOfHost(http: HttpContext): Promise<void> {
  const { request } = http;
  writeSelections(http, undefined);
  if (await callMethod(request, 'logOut')) {
    return;
  }
  await callMethod(request.session, 'regenerate');
}

/** The choices of one owner in the host's session. */
export function readSelections(http: HttpContext, owner: string): Selections {
  const stored = sessionOf(http)?.[SELECTIONS];
  if (typeof stored !== 'object' || stored === null || !('owner' in stored) || stored.owner !== owner) {
    return [];
  }
  return parseSelections('selections' in stored ? stored.selections : undefined);
}

/** Keeps the choices of one owner; those of another person in the same session go. */
export function writeSelections(
  http: HttpContext,
  kept: { owner: string; selections: Selections } | undefined,
): void {
  const session = sessionOf(http);
  if (session === undefined) {
    return;
  }
  if (kept === undefined) {
    delete session[SELECTIONS];
  } else {
    session[SELECTIONS] = kept;
  }
}

function sessionOf({ request: { session } }: HttpContext): Record<string, unknown> | undefined {
  return isRecord(session) ? session : undefined;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

/** Calls a method that ends by callback or by promise. Answers false where there is none. */
async function callMethod(target: unknown, name: string, ...values: unknown[]): Promise<boolean> {
  if (!isRecord(target)) {
    return false;
  }
  const method = target[name];
  if (typeof method !== 'function') {
    return false;
  }
  await new Promise<void>((resolve, reject) => {
    const done: Callback = (error) => (error === undefined || error === null ? resolve() : reject(error));
    const result: unknown = method.call(target, ...values, done);
    if (result instanceof Promise) {
      result.then(() => resolve(), reject);
    }
  });
  return true;
}
