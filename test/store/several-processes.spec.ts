import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { bodyOf, signIn } from '../guards/signed-in.js';
import { COOKIE_SECRET, startHost, type Host, type HostKind } from '../support/host.js';
import { Visitor } from '../support/visitor.js';
import { MemoryStore } from './memory-store.js';
import { startSandbox } from '../support/sandbox.js';

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());

/** Two processes of one host behind a load balancer: the same options, the same callback, one store. */
describe('two processes of a host, one on express and one on fastify', () => {
  let store: MemoryStore;
  let one: Host;
  let other: Host;

  async function startBoth(shared: MemoryStore | undefined): Promise<void> {
    const start = (kind: HostKind, redirectUri?: string): Promise<Host> =>
      startHost({
        kind,
        options: (callback) => ({
          tenant: sandbox.tenantOptions('acme', { redirectUri: redirectUri ?? callback }),
          secrets: [COOKIE_SECRET],
          ...(shared === undefined ? {} : { store: shared }),
          logoutCheck: { ttl: 0 },
        }),
      });
    one = await start('express');
    other = await start('fastify', one.callback);
  }

  /** Logs in up to the callback and returns its URL. */
  async function pendingCallback(visitor: Visitor): Promise<string> {
    sandbox.signInAs('sam.several');
    const { location } = await visitor.follow(
      `${one.url}/auth/login`,
      ({ pathname }) => pathname === '/auth/callback',
    );
    if (location === undefined) {
      throw new Error('the provider did not send the browser back');
    }
    return location;
  }

  /** A second browser with a copy of the cookies. */
  function copyOf(visitor: Visitor): Visitor {
    const copy = new Visitor();
    for (const [name, value] of visitor.cookies('127.0.0.1')) {
      copy.cookies('127.0.0.1').set(name, value);
    }
    return copy;
  }

  const toOther = (address: string): string => address.replace(one.url, other.url);

  beforeEach(() => {
    store = new MemoryStore();
  });
  afterEach(async () => {
    jest.restoreAllMocks();
    await Promise.all([one?.close(), other?.close()]);
  });

  it('finish a login once, in either process', async () => {
    await startBoth(store);
    const visitor = new Visitor();
    const callback = await pendingCallback(visitor);
    const thief = copyOf(visitor);
    expect((await visitor.visit(callback)).status).toBe(303);
    const again = await thief.visit(toOther(callback));
    expect(again.status).toBe(401);
    expect(bodyOf(again)).toMatchObject({ code: 'login_failed', reason: 'state' });
  });

  it('finish a login once where both are requested at the same time', async () => {
    await startBoth(store);
    const visitor = new Visitor();
    const callback = await pendingCallback(visitor);
    const replies = await Promise.all([
      copyOf(visitor).visit(callback),
      copyOf(visitor).visit(toOther(callback)),
    ]);
    expect(replies.map(({ status }) => status).toSorted()).toEqual([303, 401]);
  });

  it('share logins and logouts', async () => {
    await startBoth(store);
    const visitor = await signIn(sandbox, one);
    const copy = copyOf(visitor);
    expect((await copy.visit(`${other.url}/me`)).status).toBe(200);
    expect((await visitor.visit(`${one.url}/auth/logout`, { method: 'POST' })).status).toBe(303);
    expect((await copy.visit(`${one.url}/me`)).status).toBe(401);
    expect((await copy.visit(`${other.url}/me`)).status).toBe(401);
  });

  it('do not share logouts without a store', async () => {
    await startBoth(undefined);
    const visitor = await signIn(sandbox, one);
    const copy = copyOf(visitor);
    await visitor.visit(`${one.url}/auth/logout`, { method: 'POST' });
    expect((await copy.visit(`${one.url}/me`)).status).toBe(401);
    expect((await copy.visit(`${other.url}/me`)).status).toBe(200);
  });

  it('store no readable address, token or cookie', async () => {
    await startBoth(store);
    const visitor = await signIn(sandbox, one, 'sam.several', { eventId: 'world-2026' });
    await visitor.visit(`${one.url}/events/world-2026/mine`);
    const cookie = visitor.cookies('127.0.0.1').get('exhibitor-identity') ?? 'none';
    await visitor.visit(`${one.url}/auth/logout`, { method: 'POST' });
    expect(store.raw.size).toBeGreaterThanOrEqual(2);
    const tokens = sandbox.requests.flatMap(({ headers }) => headers.authorization?.split(' ')[1] ?? []);
    for (const secret of ['sam.several', 'example.com', cookie, ...tokens]) {
      expect(store.dump).not.toContain(secret);
    }
  });

  it.each(['throws', 'hangs', 'times out'] as const)('continue while the store %s', async (failure) => {
    const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    await startBoth(store);
    store.failure = failure;
    const began = performance.now();
    const visitor = await signIn(sandbox, one, 'sam.several', { eventId: 'world-2026' });
    expect((await visitor.visit(`${one.url}/events/world-2026/mine`)).status).toBe(200);
    expect((await visitor.visit(`${one.url}/auth/logout`, { method: 'POST' })).status).toBe(303);
    expect((await visitor.visit(`${one.url}/me`)).status).toBe(401);
    expect(performance.now() - began).toBeLessThan(15_000);
    expect(store.calls).toBeGreaterThan(0);
    // Not every request waits: a store that failed rests, but for the logout.
    expect(store.calls).toBeLessThanOrEqual(3);
    expect(warn).toHaveBeenCalledWith(expect.stringContaining('the shared store does not answer'));
  });
});
