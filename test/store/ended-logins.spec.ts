import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger, type INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { ExhibitorModule, type SharedStore, type StoreMessage } from '../../lib/index.js';
import { EndedLogins } from '../../lib/store/ended-logins.service.js';
import { clockOf } from '../support/clock.js';
import { eventually } from '../support/wait.js';
import { MemoryStore } from './memory-store.js';

const HOUR = 3_600_000;
const tenant = {
  tenantId: 'acme',
  baseUrl: 'https://api.example',
  authUrl: 'https://login.example',
  clientId: 'acme-api',
  clientSecret: 'secret',
};
const secrets = ['the secret of the tests of ended logins, long'];

let store: MemoryStore;
let logouts: string[];
let apps: INestApplicationContext[];
beforeEach(() => {
  store = new MemoryStore();
  logouts = [];
  apps = [];
  jest.spyOn(Logger.prototype, 'warn').mockImplementation((message: unknown) => {
    logouts.push(...[String(message)].filter((line) => line.includes('logout')));
  });
});
afterEach(async () => {
  await Promise.all(apps.map((app) => app.close()));
  jest.restoreAllMocks();
});

/** A process of a host. */
async function startProcess(
  shared: SharedStore | 'none' = store,
  provider = true,
): Promise<{ app: INestApplicationContext; ended: EndedLogins }> {
  const options = {
    tenant,
    secrets,
    logoutCheck: { ttl: 0, provider },
    cookies: { identityTtl: HOUR },
    ...(shared === 'none' ? {} : { store: shared }),
  };
  const app = await NestFactory.createApplicationContext(ExhibitorModule.forRoot(options), { logger: false });
  apps.push(app);
  return { app, ended: app.get(EndedLogins) };
}

/** A login of this id, or of this user, whose ID token was issued then. */
const login = (id: string, subject = 'sam', loggedInAt = 0) => ({
  id,
  subject,
  registration: 'r',
  loggedInAt,
});
const byUser = (subject: string, at: number) => ({ registration: 'r', subject, at });
/** How long an end is remembered: two hours more, for clocks that are set back. */
const KEPT = 3 * HOUR;

describe('a login that ended', () => {
  it('is a key alone in the store; a logout at the provider has its time', async () => {
    const { ended } = await startProcess();
    await ended.end('an id');
    expect(await ended.endAtProvider(byUser('sam', 1_700_000_000_000))).toBe(true);
    const entries = [...store.raw];
    expect(entries.map(([key]) => key)).toEqual([
      expect.stringMatching(/^nestjs-exhibitor:ended-login:[\w-]{43}$/),
      expect.stringMatching(/^nestjs-exhibitor:ended-login:[\w-]{43}$/),
    ]);
    expect(entries.map(([, { value }]) => value)).toEqual(['1', '1700000000000']);
    for (const [, { until }] of entries) {
      expect(Math.abs(until - Date.now() - KEPT)).toBeLessThan(10_000);
    }
  });

  it('holds in every process, whatever else is under its key', async () => {
    const [one, other] = [await startProcess(), await startProcess()];
    expect(await other.ended.has(login('an id'), 'r')).toBe(false);
    await one.ended.end('an id');
    expect(await other.ended.has(login('an id'), 'r')).toBe(true);
    expect(await other.ended.has(login('another'), 'r')).toBe(false);
    for (const entry of store.raw.values()) {
      entry.value = 'rubbish';
    }
    expect(await (await startProcess()).ended.has(login('an id'), 'r')).toBe(true);
  });

  it('is remembered until the end of the login, plus two hours', async () => {
    const { app, ended } = await startProcess('none');
    await ended.end('an id', Date.now() + HOUR / 2);
    clockOf(app).skip(2.5 * HOUR - 10_000);
    expect(ended.has(login('an id'), 'r')).toBe(true);
    clockOf(app).skip(20_000);
    expect(ended.has(login('an id'), 'r')).toBe(false);
  });

  it('of another service lives longer there: its end is remembered until then', async () => {
    const { app, ended } = await startProcess('none');
    await ended.end('an id', Date.now() + 24 * HOUR);
    clockOf(app).skip(25 * HOUR);
    expect(ended.has(login('an id'), 'r')).toBe(true);
  });

  it('by the time of a logout began no later; the later one of two logouts stays, in whatever order', async () => {
    const [one, other] = [await startProcess(), await startProcess()];
    await one.ended.endAtProvider(byUser('sam', 200));
    await other.ended.endAtProvider(byUser('sam', 100));
    for (const { ended } of [one, other, await startProcess()]) {
      expect(await ended.has(login('a', 'sam', 200), 'r')).toBe(true);
      expect(await ended.has(login('a', 'sam', 201), 'r')).toBe(false);
      expect(await ended.has(login('a', 'olga', 200), 'r')).toBe(false);
      expect(await ended.has({ ...login('a', 'sam', 200), registration: 'another' }, 'another')).toBe(false);
    }
  });

  it('by its session ended whatever the time; a logout of session and user ends logins without a session', async () => {
    const { ended } = await startProcess();
    await ended.endAtProvider({ registration: 'r', sid: 's1', at: 200 });
    expect(await ended.has({ ...login('a', 'sam', 999), sid: 's1' }, 'r')).toBe(true);
    expect(await ended.has({ ...login('a', 'sam', 100), sid: 's2' }, 'r')).toBe(false);
    expect(await ended.has(login('a', 'sam', 100), 'r')).toBe(false);
    await ended.endAtProvider({ registration: 'r', subject: 'sam', sid: 's3', at: 200 });
    expect(await ended.has({ ...login('a', 'sam', 100), sid: 's2' }, 'r')).toBe(false);
    expect(await ended.has(login('a', 'sam', 200), 'r')).toBe(true);
    expect(await ended.has(login('a', 'sam', 201), 'r')).toBe(false);
  });

  it('is remembered in the process without a store, the last 100,000', async () => {
    const [one, other] = [await startProcess('none'), await startProcess('none')];
    await one.ended.end('an id');
    expect([one, other].map(({ ended }) => ended.has(login('an id'), 'r'))).toEqual([true, false]);
    for (let count = 0; count <= 100_000; count++) {
      await one.ended.end(`id ${count}`);
    }
    expect(['id 0', 'id 1'].map((id) => one.ended.has(login(id), 'r'))).toEqual([false, true]);
  });

  it('is looked for under one key of the store, without logoutCheck.provider', async () => {
    const { ended } = await startProcess(store, false);
    await ended.has({ ...login('x'), sid: 's' }, 'r');
    expect(store.calls).toBe(1);
    await ended.endAtProvider(byUser('sam', 200));
    expect(await ended.has(login('x', 'sam', 100), 'r')).toBe(false);
  });

  it('is looked for on nestjs-exhibitor:store', async () => {
    const messages: StoreMessage[] = [];
    const collect = (message: unknown): void => void messages.push(message as StoreMessage);
    const { ended } = await startProcess(store, false);
    const other = await startProcess();
    subscribe('nestjs-exhibitor:store', collect);
    await ended.has(login('x'), 'r');
    await other.ended.end('x');
    await ended.has(login('x'), 'r');
    store.failure = 'rejects';
    await ended.has(login('y'), 'r');
    unsubscribe('nestjs-exhibitor:store', collect);
    expect(messages).toEqual([
      { kind: 'ended-login', outcome: 'miss' },
      { kind: 'ended-login', outcome: 'hit' },
      { kind: 'ended-login', outcome: 'failed' },
    ]);
  });
});

describe('a logout that the store does not take', () => {
  it('is written again soon, also where the store is full rather than down, with one warning', async () => {
    let isFull = true;
    const full: SharedStore = {
      get: (key) => store.get(key),
      set: async (key, value, options) => !isFull && store.set(key, value, options),
      delete: (key) => store.delete(key),
    };
    const { ended } = await startProcess(full);
    await ended.end('an id');
    await ended.end('another id');
    isFull = false;
    await eventually(() => store.raw.size === 2);
    expect(logouts).toEqual([expect.stringMatching(/^1 logout.*tried again for a minute/)]);
  });

  it('waits in memory: 1,000 at most, which are written at the close of the application', async () => {
    const { app, ended } = await startProcess();
    store.failure = 'rejects';
    await Promise.all(Array.from({ length: 1_200 }, (_, id) => ended.end(`id ${id}`)));
    store.failure = 'none';
    await app.close();
    expect(store.raw.size).toBe(1_000);
    expect(logouts).toHaveLength(1);
  });

  it('takes one place, however often it is repeated', async () => {
    const { app, ended } = await startProcess();
    store.failure = 'rejects';
    for (let repeated = 0; repeated < 1_001; repeated += 1) {
      await ended.end('an id');
    }
    await ended.end('another id');
    store.failure = 'none';
    await app.close();
    expect(store.raw.size).toBe(2);
  });

  it('at the provider is not written again: a late one could replace a newer one', async () => {
    const { app, ended } = await startProcess();
    store.failure = 'rejects';
    expect(await ended.endAtProvider(byUser('sam', 100))).toBe(false);
    store.failure = 'none';
    await app.close();
    expect(store.raw.size).toBe(0);
    expect(logouts).toEqual([]);
  });
});
