import { expect } from '@jest/globals';
import type { ExhibitorIdentity } from '../../lib/index.js';
import type { ScriptedProvider } from '../support/provider.js';
import type { Script } from '../support/provider-script.js';
import type { Host } from '../support/host.js';
import { formFields, Visitor, type Reply } from '../support/visitor.js';

/** The authorization response of the provider. */
export interface Arrival {
  method: 'GET' | 'POST';
  /** URL without its parameters. */
  callback: string;
  parameters: URLSearchParams;
}

/** The host of a login. */
export type Start = Pick<Host, 'url'> & Partial<Host>;

/** Starts a login and returns the response of the provider, which is not sent to the host yet. */
export async function toProvider(visitor: Visitor, { url }: Start, query = ''): Promise<Arrival> {
  const started = await visitor.visit(`${url}/auth/login${query}`);
  if (started.location === undefined) {
    throw new Error(`the login answered ${started.status}: ${started.text}`);
  }
  const answered = await visitor.visit(started.location);
  if (answered.location !== undefined) {
    const target = new URL(answered.location);
    return {
      method: 'GET',
      callback: `${target.origin}${target.pathname}`,
      parameters: target.searchParams,
    };
  }
  const { action, fields } = formFields(answered.text);
  return { method: 'POST', callback: action, parameters: new URLSearchParams(fields) };
}

/** Sends the response of the provider to the host. */
export function toHost(visitor: Visitor, { method, callback, parameters }: Arrival): Promise<Reply> {
  return method === 'POST'
    ? visitor.visit(callback, { form: parameters })
    : visitor.visit(`${callback}?${parameters}`);
}

/** A whole login. */
export async function logIn(visitor: Visitor, host: Start, query?: string): Promise<Reply> {
  return toHost(visitor, await toProvider(visitor, host, query));
}

/** A browser that comes back from the provider; its response is not sent to the host yet. */
export async function arrive(
  host: Start,
  query?: string,
  visitor = new Visitor(),
): Promise<{ visitor: Visitor; arrival: Arrival }> {
  return { visitor, arrival: await toProvider(visitor, host, query) };
}

/** A browser that is logged in. */
export async function enter(host: Start, query?: string, visitor = new Visitor()): Promise<Visitor> {
  expect((await logIn(visitor, host, query)).status).toBe(303);
  return visitor;
}

export const logOut = (
  visitor: Visitor,
  { url }: Start,
  headers: Record<string, string> = {},
): Promise<Reply> => visitor.visit(`${url}/auth/logout`, { method: 'POST', headers });

/** A copy of a browser with its cookies. */
export function copyOf(visitor: Visitor, host: Start, origins?: Record<string, string>): Visitor {
  const copy = new Visitor(origins);
  const { hostname } = new URL(host.url);
  for (const [name, value] of visitor.cookies(hostname)) {
    copy.cookies(hostname).set(name, value);
  }
  return copy;
}

/** The identity of a visitor at the host. */
export async function identityOf(visitor: Visitor, { url }: Start): Promise<ExhibitorIdentity | undefined> {
  const reply = await visitor.visit(`${url}/me`);
  if (reply.status === 401) {
    return undefined;
  }
  expect(reply.status).toBe(200);
  return (JSON.parse(reply.text) as { identity: ExhibitorIdentity }).identity;
}

export const isLoggedIn = async (visitor: Visitor, host: Start): Promise<boolean> =>
  (await identityOf(visitor, host)) !== undefined;

/** Names of the cookies of started logins. */
export function loginCookies(visitor: Visitor, { url }: Start): string[] {
  return [...visitor.cookies(new URL(url).hostname).keys()].filter((name) =>
    name.includes('exhibitor-login-'),
  );
}

/** Expects that the reply is an error of this package. */
export function expectError(reply: Reply, status: number, code: string, more: object = {}): void {
  const body = { statusCode: status, code, ...more };
  expect([reply.status, JSON.parse(reply.text)]).toEqual([status, expect.objectContaining(body)]);
}

/** Expects that the reply refuses the login, and shows nothing else. */
export function expectRefusal(reply: Reply, reason: string): void {
  expectError(reply, 401, 'login_failed', { error: 'Unauthorized', reason });
  expect(reply.headers.get('cache-control')).toBe('private, no-store');
  expect(reply.headers.get('referrer-policy')).toBe('no-referrer');
  expect(reply.setCookies.filter((cookie) => cookie.includes('exhibitor-identity='))).toEqual([]);
}

/** Expects that a new login is refused for this reason. */
export async function expectLoginRefused(host: Start, reason: string, query?: string): Promise<void> {
  expectRefusal(await logIn(new Visitor(), host, query), reason);
}

/** Expects that a login is accepted and sets an identity. */
export async function expectAccepted(host: Start, query?: string): Promise<Visitor> {
  const visitor = new Visitor();
  const reply = await logIn(visitor, host, query);
  expect([reply.status, reply.location]).toEqual([303, `${host.url}/`]);
  expect(await identityOf(visitor, host)).toMatchObject({ subject: 'pat', email: 'pat@example.com' });
  expect(loginCookies(visitor, host)).toEqual([]);
  return visitor;
}

/**
 * Expects that a login changed by the script is refused for this reason: no identity is set, and the started login is
 * spent. Leaves the script of the unchanged login, which the caller expects to be accepted.
 */
export async function expectRefused(
  host: Start,
  provider: ScriptedProvider,
  script: Script,
  reason: string,
  honest: Script = {},
): Promise<void> {
  const visitor = new Visitor();
  provider.script = { ...honest, ...script };
  const arrival = await toProvider(visitor, host);
  const before = copyOf(visitor, host);
  const refused = await toHost(visitor, arrival);
  provider.script = honest;
  expectRefusal(refused, reason);
  expect(await identityOf(visitor, host)).toBeUndefined();
  expect(loginCookies(visitor, host)).toEqual([]);

  // Also with a copy of the cookie: the state itself is spent.
  expectRefusal(await toHost(before, arrival), 'state');
}
