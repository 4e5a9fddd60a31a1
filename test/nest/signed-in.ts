import { expect } from '@jest/globals';
import type { ExhibitorSandbox } from '../../lib/development/testing/index.js';
import { copyOf } from '../login/journey.js';
import { Visitor, type Reply } from '../support/visitor.js';

/** Logs a person in at a host with the routes of `BoothController`; returns the browser. */
export async function signIn(
  sandbox: ExhibitorSandbox,
  host: { url: string },
  person = 'sam.several',
  query: Record<string, string> = {},
  visitor = new Visitor(),
): Promise<Visitor> {
  sandbox.signInAs(person);
  const done = await visitor.follow(
    `${host.url}/auth/login?${new URLSearchParams({ returnTo: '/landed', ...query }).toString()}`,
    ({ pathname }) => pathname === '/landed',
  );
  if (done.status !== 303) {
    throw new Error(`the login ended with ${done.status}: ${done.text}`);
  }
  return visitor;
}

/** The people of a host. A login takes as long as ten requests, so each logs in once; no test may log out one of these. */
export class Members {
  readonly #logins = new Map<string, Promise<Visitor>>();

  constructor(
    private readonly sandbox: ExhibitorSandbox,
    private readonly host: { url: string },
  ) {}

  /** A browser of its own with the login of this person. */
  async enter(person = 'sam.several', query: Record<string, string> = {}): Promise<Visitor> {
    const key = JSON.stringify([person, query]);
    const login = this.#logins.get(key) ?? signIn(this.sandbox, this.host, person, query);
    this.#logins.set(key, login);
    return copyOf(await login, this.host);
  }
}

/** Sends the form of a logout. */
export function logOut(visitor: Visitor, { url }: { url: string }, headers = {}): Promise<Reply> {
  return visitor.visit(`${url}/auth/logout`, { method: 'POST', headers });
}

/** Ids of the exhibitors of a person at an event of acme. */
export function idsOf(sandbox: ExhibitorSandbox, eventId = 'world-2026', person = 'sam.several'): string[] {
  return sandbox
    .exhibitors(eventId, 'acme')
    .filter(({ contactEmails }) => contactEmails.includes(`${person}@example.com`))
    .map(({ id }) => id);
}

/** Status and JSON of a reply. */
export function answerOf(reply: Reply): [status: number, body: unknown] {
  return [reply.status, JSON.parse(reply.text)];
}

/** An answer with an error of this code. */
export function refused(status: number, code: string): [status: number, body: unknown] {
  return [status, expect.objectContaining({ code })];
}

/** The JSON of a reply. */
export function bodyOf<T = Record<string, unknown>>(reply: Reply): T {
  return JSON.parse(reply.text) as T;
}

/** What a host that keeps identities itself has of sam.several: everything that a login always has, but for the end. */
export function hostUser(
  { tenantId, login }: ReturnType<ExhibitorSandbox['tenantOptions']>,
  tenant = 'default',
): object {
  const { issuer, clientId, redirectUri } = login;
  return {
    id: 'login-1',
    issuer,
    subject: 'sam.several',
    email: 'sam.several@example.com',
    claims: {},
    tenant,
    tenantId,
    clientId,
    redirectUri,
  };
}
