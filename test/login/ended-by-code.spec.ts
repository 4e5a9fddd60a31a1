import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { ExhibitorLogins, type LoginsToEnd } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { signIn } from '../guards/signed-in.js';
import { MemoryStore } from '../store/memory-store.js';
import { COOKIE_SECRET, startHost, type Host, type HostKind } from '../support/host.js';
import { startSandbox } from '../support/sandbox.js';
import type { Visitor } from '../support/visitor.js';
import { copyOf, identityOf } from './journey.js';

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());
afterEach(() => void jest.restoreAllMocks());

const isLoggedIn = async (visitor: Visitor, host: Host): Promise<boolean> =>
  (await identityOf(visitor, host)) !== undefined;

describe.each<HostKind>(['express', 'fastify + @fastify/session'])('ExhibitorLogins.end on %s', (kind) => {
  const store = new MemoryStore();
  let one: Host;
  let two: Host;
  const start = (provider: boolean, redirectUri?: string): Promise<Host> =>
    startHost({
      kind,
      options: (own) => ({
        tenant: sandbox.tenantOptions('acme', { redirectUri: redirectUri ?? own }),
        secrets: [COOKIE_SECRET],
        logoutCheck: { ttl: 0, provider },
        store,
      }),
    });
  beforeAll(async () => {
    one = await start(true);
    two = await start(true, one.callback);
  });
  afterAll(() => Promise.all([one?.close(), two?.close()]));

  const end = (logins: LoginsToEnd, host = one): Promise<void> => host.app.get(ExhibitorLogins).end(logins);

  it('ends one login by the id of its identity, with every copy, in every process', async () => {
    const [visitor, stays] = [await signIn(sandbox, one), await signIn(sandbox, one)];
    const copy = copyOf(visitor, one);
    await end({ id: (await identityOf(visitor, one))?.id ?? '' });
    // The session of a host is known in its own process.
    const hosts = kind.includes('session') ? [one] : [one, two];
    for (const host of hosts) {
      expect([await isLoggedIn(visitor, host), await isLoggedIn(copy, host)]).toEqual([false, false]);
      expect(await isLoggedIn(stays, host)).toBe(true);
    }
  });

  it('ends every login of a user so far, and no other; the user can log in again', async () => {
    const visitors = [await signIn(sandbox, one), await signIn(sandbox, one)];
    const olga = await signIn(sandbox, one, 'olga.one');
    const { tenant = '', subject = '' } = (await identityOf(visitors[0] as Visitor, one)) ?? {};
    await end({ tenant, subject }, two);
    for (const visitor of visitors) {
      expect(await isLoggedIn(visitor, one)).toBe(false);
    }
    expect(await isLoggedIn(olga, one)).toBe(true);
    // The time of a login has whole seconds.
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    expect(await isLoggedIn(await signIn(sandbox, one), one)).toBe(true);
  });

  it('refuses what names no login, and a subject that nobody looks for', async () => {
    for (const [logins, code] of [
      [{ id: '' }, 'invalid_argument'],
      [{ id: 7 }, 'invalid_argument'],
      [{ tenant: 'default', subject: '' }, 'invalid_argument'],
      [{ tenant: 'nobody', subject: 'sam' }, 'unknown_tenant'],
    ] as [LoginsToEnd, string][]) {
      await expect(end(logins)).rejects.toMatchObject({ code });
    }
    const before = store.raw.size;
    // A host without a back-channel guard.
    const silent = await startHost({
      kind,
      controllers: [],
      options: (redirectUri) => ({
        tenant: sandbox.tenantOptions('acme', { redirectUri }),
        secrets: [COOKIE_SECRET],
        logoutCheck: { provider: false },
        store,
      }),
    });
    await expect(end({ tenant: 'default', subject: 'sam' }, silent)).rejects.toMatchObject({
      code: 'configuration_invalid',
      problems: [expect.objectContaining({ path: 'logoutCheck.provider' })],
    });
    await silent.close();
    expect(store.raw.size).toBe(before);
  });

  it('says where the store did not take the end of a user, which holds in this process', async () => {
    jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    const visitor = await signIn(sandbox, one);
    const { tenant = '', subject = '' } = (await identityOf(visitor, one)) ?? {};
    store.failure = 'rejects';
    await expect(end({ tenant, subject })).rejects.toMatchObject({ code: 'service_unavailable' });
    expect(await isLoggedIn(visitor, one)).toBe(false);
    store.failure = 'none';
  });
});
