/** What the functions of a host do wrong. */
import { EXHIBITOR_ERROR } from '../../errors/exhibitor.error.js';
import { untrustedText } from '../../model/untrusted-text.js';
import type { Problem } from './problem.interface.js';

/** Characters of a stack that are shown, and of one of its lines. */
const LONGEST_STACK = 4_096;
const LONGEST_LINE = 1_000;

/**
 * The stack of what a function of the host threw, indented: its message without addresses, tokens and credentials, then the frames.
 * Never its members, which may be anything. Errors of no class have no stack.
 */
export function stackText(thrown: unknown): string {
  const { head, frames } = stackOf(thrown);
  const lines = head.split('\n', 20).map((line) => untrustedText(line, LONGEST_LINE));
  return [...lines, ...frames]
    .map((line) => `    ${line}`)
    .join('\n')
    .slice(0, LONGEST_STACK);
}

/** Name of the error and the place where it was created: tells errors apart in the log. */
export function firstFrame(thrown: unknown): string {
  return `${errorName(thrown)} ${stackOf(thrown).frames[0]}`;
}

export function errorName(thrown: unknown): string {
  return untrustedText(textIn(thrown, 'name') || 'no Error');
}

/** Name and message, which may repeat what a visitor sent, and the frames, which only code decides. */
function stackOf(thrown: unknown): { head: string; frames: readonly string[] } {
  const [name, message, stack] = [textIn(thrown, 'name'), textIn(thrown, 'message'), textIn(thrown, 'stack')];
  // Not by `instanceof`: an error may be of another realm.
  if (stack === '' && !isError(thrown)) {
    return { head: typeof thrown === 'string' ? thrown : `a value of the type ${typeof thrown}`, frames: [] };
  }
  const start = stack.indexOf(`${message}\n    at `);
  const frames = stack
    .slice(start === -1 ? 0 : start + message.length)
    .split('\n')
    .filter((line) => line.startsWith('    at '))
    // Of a message that was changed later, the former one may still be there.
    .map((line) => (start === -1 ? untrustedText(line, LONGEST_LINE) : line));
  return { head: [name || 'Error', message].filter(Boolean).join(': '), frames };
}

/** What a host throws may be anything, also a Proxy that throws when it is asked. */
function isError(thrown: unknown): boolean {
  try {
    return thrown instanceof Error;
  } catch {
    return false;
  }
}

/** A member of what a host threw; none where its accessor throws. */
function memberOf(thrown: unknown, name: PropertyKey): unknown {
  try {
    return typeof thrown === 'object' && thrown !== null ? Reflect.get(thrown, name) : undefined;
  } catch {
    return undefined;
  }
}

function textIn(thrown: unknown, name: string): string {
  const member = memberOf(thrown, name);
  return typeof member === 'string' ? member : '';
}

/** The `store` failed or was too slow. */
export function storeDown(error: unknown): string {
  return `the shared store does not answer (${reasonOf(error)}); continuing without it\n${stackText(error)}`;
}

/** `ECONNREFUSED 127.0.0.1:6379`, else the name of the error. Its message is not shown: it may contain the password. */
function reasonOf(error: unknown): string {
  // The connection error is the cause of what a client throws. Node tries all addresses of a name.
  const cause = memberOf(error, 'cause') ?? error;
  const connection = memberOf(memberOf(cause, 'errors'), 0) ?? cause;
  const [code, address] = [textIn(connection, 'code'), textIn(connection, 'address')];
  if (code !== '') {
    const port = memberOf(connection, 'port');
    return untrustedText(
      address === '' ? code : `${code} ${address}${typeof port === 'number' ? `:${port}` : ''}`,
    );
  }
  return untrustedText(textIn(error, 'name')) || 'unknown error';
}

/**
 * The tenant source failed for this tenant, or `allowedOrigins` for what it answered: `what`.
 *
 * @param error its cause is what the host threw; without one, the host threw it, or it is a timeout
 * @param staleIfError where the last good options serve: for how long at most, in ms
 */
export function tenantSourceFails(what: string, key: string, error: unknown, staleIfError?: number): string {
  const effect =
    staleIfError === undefined
      ? 'no options of it can be used'
      : `its last good options are used for ${staleIfError} ms at most`;
  const line = `${what} fails for the tenant '${untrustedText(key)}'; ${effect}`;
  const thrown = memberOf(error, 'cause') ?? error;
  // Not by `isExhibitorError`: a Proxy may make it throw.
  const ownMessage = memberOf(thrown, EXHIBITOR_ERROR) === true ? textIn(thrown, 'message') : '';
  return ownMessage === ''
    ? `${line} (${reasonOf(thrown)})\n${stackText(thrown)}`
    : `${line}: ${untrustedText(ownMessage, 300)}`;
}

/** With `session: 'host'`. */
export function unusableUser(members: readonly string[]): string {
  const names = members.slice(0, 20).map((name) => untrustedText(name, 40));
  return (
    "session: 'host' finds a request.user that is no identity, so the request counts as nobody's: the session must keep all " +
    `members of ExhibitorIdentity. This one has: ${names.join(', ') || 'none'}`
  );
}

export const UNREAD_FORM =
  "no body parser has read its form: leave Nest's bodyParser on, or register one for application/x-www-form-urlencoded";

/** A guard on a route whose event it must not guess. */
export function unnamedEvent(controller: string, handler: string): Problem {
  const message =
    `a request of ${controller}.${handler} names no event: name it by the route parameter eventId, or by the option resolveEvent. ` +
    'Without that option and other parameters, the query eventId counts too, and for GET and HEAD the event of the login';
  return { cause: `event of ${controller}.${handler}`, options: [], message };
}
