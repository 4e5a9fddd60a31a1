import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { LoginOptions, SharedStore, StoreMessage } from '../../lib/index.js';
import { checkOptions } from '../../lib/options/check-options.js';
import { ProblemLog } from '../../lib/problems/problem-log.service.js';
import { EndedLogins } from '../../lib/store/ended-logins.service.js';
import { Sealer } from '../../lib/store/sealer.service.js';
import { SharedValues } from '../../lib/store/shared-values.service.js';
import { StoppedClock } from '../support/clock.js';
import { KEYS } from '../support/provider-keys.js';
import { registryOf } from '../support/registry.js';
import { eventually } from '../support/wait.js';
import { MemoryStore } from './memory-store.js';

const HOUR = 3_600_000;
/** {@link Clock.now} of each process at first. */
const START = 10_000;
const ISSUER = 'https://login.example';
const TENANT = {
  tenantId: 'acme',
  baseUrl: 'https://api.example',
  authUrl: ISSUER,
  clientId: 'acme-api',
  clientSecret: 'secret',
};
const SECRETS = ['the secret of the tests of ended logins, long'];

let store: MemoryStore;
let logouts: string[];
beforeEach(() => {
  store = new MemoryStore();
  logouts = [];
  jest.spyOn(Logger.prototype, 'warn').mockImplementation((message: unknown) => {
    logouts.push(...[String(message)].filter((line) => line.includes('logout')));
  });
});
afterEach(() => void jest.restoreAllMocks());

interface Process {
  ended: EndedLogins;
  values: SharedValues;
  hasEnded(login: Parameters<EndedLogins['has']>[0]): boolean | Promise<boolean>;
  clock: StoppedClock;
}

/** The ended logins of one process of a host. */
function startProcess(
  shared: SharedStore | 'none' = store,
  logoutCheck: { ttl?: number; provider?: boolean } = { ttl: 0 },
): Process {
  const clock = new StoppedClock();
  clock.time = START;
  const options = checkOptions({
    tenant: TENANT,
    secrets: SECRETS,
    logoutCheck: { provider: true, ...logoutCheck },
    cookies: { identityTtl: HOUR },
    ...(shared === 'none' ? {} : { store: shared }),
  });
  const log = new ProblemLog(options, clock);
  const values = new SharedValues(options, new Sealer(options, clock), clock, log);
  const ended = new EndedLogins(options, values, clock);
  return { ended, values, clock, hasEnded: (login) => ended.has(login, 'r') };
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
    const { ended } = startProcess();
    await ended.end('an id');
    expect(await ended.endAtProvider(byUser('sam', 1_700_000_000_000))).toBe(true);
    const entries = [...store.raw];
    // SHA-256 of `an id` and `["user","r","sam"]`: processes of every version look for these.
    expect(entries.map(([key]) => key)).toEqual([
      'nestjs-exhibitor:ended-login:XpKlPPqAYJyb8726MxFQ7cSIKe-iy3RPCTiqnwbnGuA',
      'nestjs-exhibitor:ended-login:7ZiHRLSka3La9nbH59vzojkeGmu1Yy6BJgeij4JuKBA',
    ]);
    expect(entries.map(([, { value }]) => value)).toEqual(['1', '1700000000000']);
    for (const [, { until }] of entries) {
      expect(Math.abs(until - Date.now() - KEPT)).toBeLessThan(10_000);
    }
  });

  it('holds in every process, whatever else is under its key', async () => {
    const [one, other] = [startProcess(), startProcess()];
    expect(await other.ended.has(login('an id'), 'r')).toBe(false);
    await one.ended.end('an id');
    expect(await other.ended.has(login('an id'), 'r')).toBe(true);
    expect(await other.ended.has(login('another'), 'r')).toBe(false);
    for (const entry of store.raw.values()) {
      entry.value = 'rubbish';
    }
    expect(await startProcess().ended.has(login('an id'), 'r')).toBe(true);
  });

  it('is remembered until the end of the login, plus two hours', async () => {
    const { clock, ended } = startProcess('none');
    await ended.end('an id', Date.now() + HOUR / 2);
    clock.time += 2.5 * HOUR - 10_000;
    expect(ended.has(login('an id'), 'r')).toBe(true);
    clock.time += 20_000;
    expect(ended.has(login('an id'), 'r')).toBe(false);
  });

  it('of another service lives longer there: its end is remembered until then', async () => {
    const { clock, ended } = startProcess('none');
    await ended.end('an id', Date.now() + 24 * HOUR);
    clock.time += 25 * HOUR;
    expect(ended.has(login('an id'), 'r')).toBe(true);
  });

  it('by the time of a logout began no later; the later one of two logouts stays, in whatever order', async () => {
    const [one, other] = [startProcess(), startProcess()];
    await one.ended.endAtProvider(byUser('sam', 200));
    await other.ended.endAtProvider(byUser('sam', 100));
    for (const { ended } of [one, other, startProcess()]) {
      expect(await ended.has(login('a', 'sam', 200), 'r')).toBe(true);
      expect(await ended.has(login('a', 'sam', 201), 'r')).toBe(false);
      expect(await ended.has(login('a', 'olga', 200), 'r')).toBe(false);
      expect(await ended.has({ ...login('a', 'sam', 200), registration: 'another' }, 'another')).toBe(false);
    }
  });

  it('by its session ended whatever the time; a logout of session and user ends logins without a session', async () => {
    const { ended } = startProcess();
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
    const [one, other] = [startProcess('none'), startProcess('none')];
    await one.ended.end('an id');
    expect([one, other].map(({ ended }) => ended.has(login('an id'), 'r'))).toEqual([true, false]);
    for (let count = 0; count <= 100_000; count++) {
      await one.ended.end(`id ${count}`);
    }
    expect(['id 0', 'id 1'].map((id) => one.ended.has(login(id), 'r'))).toEqual([false, true]);
  });

  it('is looked for under one key of the store, without logoutCheck.provider', async () => {
    const { ended } = startProcess(store, { ttl: 0, provider: false });
    await ended.has({ ...login('x'), sid: 's' }, 'r');
    expect(store.calls).toBe(1);
    await ended.endAtProvider(byUser('sam', 200));
    expect(await ended.has(login('x', 'sam', 100), 'r')).toBe(false);
  });

  it('is looked for on nestjs-exhibitor:store', async () => {
    const messages: StoreMessage[] = [];
    const collect = (message: unknown): void => void messages.push(message as StoreMessage);
    const { ended } = startProcess(store, { ttl: 0, provider: false });
    const other = startProcess();
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
    const { ended } = startProcess(full);
    await ended.end('an id');
    await ended.end('another id');
    isFull = false;
    await eventually(() => store.raw.size === 2);
    expect(logouts).toEqual([expect.stringMatching(/^1 logout.*tried again for a minute/)]);
  });

  it('waits in memory: 1,000 at most, which are written at the close of the application', async () => {
    const { ended, values } = startProcess();
    store.failure = 'rejects';
    await Promise.all(Array.from({ length: 1_200 }, (_, id) => ended.end(`id ${id}`)));
    store.failure = 'none';
    await values.beforeApplicationShutdown();
    expect(store.raw.size).toBe(1_000);
    expect(logouts).toHaveLength(1);
  });

  it('takes one place, however often it is repeated', async () => {
    const { ended, values } = startProcess();
    store.failure = 'rejects';
    for (let repeated = 0; repeated < 1_001; repeated += 1) {
      await ended.end('an id');
    }
    await ended.end('another id');
    store.failure = 'none';
    await values.beforeApplicationShutdown();
    expect(store.raw.size).toBe(2);
  });

  it('at the provider is not written again: a late one could replace a newer one', async () => {
    const { ended, values } = startProcess();
    store.failure = 'rejects';
    expect(await ended.endAtProvider(byUser('sam', 100))).toBe(false);
    store.failure = 'none';
    await values.beforeApplicationShutdown();
    expect(store.raw.size).toBe(0);
    expect(logouts).toEqual([]);
  });
});

describe('the logout check of requests at the same time', () => {
  it('shares no read with one that began before', async () => {
    const [one, other] = [startProcess(store, { ttl: 0 }), startProcess(store, {})];
    const before = one.hasEnded(login('a', 'sam', 1));
    await new Promise(setImmediate);
    const after = other.ended.end('a').then(() => one.hasEnded(login('a', 'sam', 1)));
    expect([await before, await after]).toEqual([false, true]);
  });
});

describe('logoutCheck.ttl', () => {
  it('remembers for a second by default that nobody logged out, and answers no promise meanwhile', async () => {
    const [one, other] = [startProcess(store, {}), startProcess(store, {})];
    expect(await one.hasEnded(login('a', 'sam', 1))).toBe(false);
    await other.ended.end('a');
    const { calls } = store;
    one.clock.time = START + 999;
    expect(one.hasEnded(login('a', 'sam', 1))).toBe(false);
    expect(store.calls).toBe(calls);
    one.clock.time = START + 1_001;
    expect(await one.hasEnded(login('a', 'sam', 1))).toBe(true);
  });

  it.each([5_000, 0])('may be %i', async (ttl) => {
    const [one, other] = [startProcess(store, { ttl }), startProcess(store, {})];
    expect(await one.hasEnded(login('a', 'sam', 1))).toBe(false);
    await other.ended.end('a');
    one.clock.time = START + Math.max(0, ttl - 1);
    expect(await one.hasEnded(login('a', 'sam', 1))).toBe(ttl === 0);
    one.clock.time = START + ttl + 1;
    expect(await one.hasEnded(login('a', 'sam', 1))).toBe(true);
  });

  it('remembers nothing of a store that did not answer', async () => {
    const [one, other] = [startProcess(store, { ttl: 60_000 }), startProcess(store, {})];
    store.failure = 'rejects';
    expect(await one.hasEnded(login('a', 'sam', 1))).toBe(false);
    store.failure = 'none';
    await other.ended.end('a');
    one.clock.time = START + 5_001;
    expect(await one.hasEnded(login('a', 'sam', 1))).toBe(true);
  });

  it('holds for one login: another of the same user, or with the same id, is asked for', async () => {
    const { hasEnded } = startProcess(store, {});
    expect(await hasEnded(login('a', 'sam', 1))).toBe(false);
    expect(hasEnded(login('a', 'sam', 1))).toBe(false);
    for (const another of [
      login('b', 'sam', 1),
      login('a', 'olga', 1),
      { ...login('a', 'sam', 1), sid: 's' },
      { ...login('a', 'sam', 1), loggedInAt: 0 },
    ]) {
      const answer = hasEnded(another);
      expect(answer).toBeInstanceOf(Promise);
      expect(await answer).toBe(false);
    }
  });

  it('does not delay a logout at the process itself, by user or by provider', async () => {
    const process = startProcess(store, {});
    const [own, foreign] = [Object.freeze(login('a', 'sam', 1)), Object.freeze(login('b', 'olga', 1))];
    expect(await Promise.all([own, foreign].map((one) => process.hasEnded(one)))).toEqual([false, false]);
    await process.ended.end('a');
    expect(process.hasEnded(own)).toBe(true);
    expect(process.hasEnded(foreign)).toBe(false);
    await process.ended.endAtProvider({ registration: 'r', subject: 'olga', at: 2 });
    expect(process.hasEnded(foreign)).toBe(true);
  });

  it.each(['throws', 'rejects'] as const)(
    'does not hold for a failure of the store: it %s',
    async (failure) => {
      const [one, other] = [startProcess(store, {}), startProcess(store, {})];
      await other.ended.end('a');
      store.failure = failure;
      expect(await one.hasEnded(login('a', 'sam', 1))).toBe(false);
      store.failure = 'none';
      one.clock.time += 5_000;
      expect(await one.hasEnded(login('a', 'sam', 1))).toBe(true);
    },
  );
});

describe('the registration that a logout names', () => {
  const registration = (changed: Partial<LoginOptions>): string => {
    const checked = checkOptions({
      tenant: {
        ...TENANT,
        login: { issuer: ISSUER, clientId: 'web', redirectUri: 'https://host.example/callback', ...changed },
      },
      secrets: SECRETS,
    });
    return registryOf(checked, new StoppedClock()).peek('default')?.registration ?? '';
  };
  const { pem, jwk } = KEYS.rs256;

  it.each<[what: string, one: Partial<LoginOptions>, other: Partial<LoginOptions>]>([
    ['PEM in two spellings', { keys: pem }, { keys: pem.replaceAll('\n', '\\n') }],
    ['a JWK and its JSON', { keys: jwk }, { keys: JSON.stringify(jwk) }],
    ['a URL', { keys: 'https://login.example/jwks' }, { keys: 'https://login.example/jwks' }],
    ['the metadata', { discovery: true }, { discovery: true, clockTolerance: 7 }],
  ])('is the same for the same keys: %s', (_what, one, other) => {
    expect(registration(one)).toMatch(/^[\w-]{22}$/);
    expect(registration(one)).toBe(registration(other));
  });

  it('differs by issuer, client and source of the keys', () => {
    const all: Partial<LoginOptions>[] = [
      { keys: pem },
      { keys: pem, clientId: 'other' },
      { keys: pem, issuer: 'https://other.example' },
      { keys: jwk },
      { keys: KEYS.attacker.jwk },
      { keys: KEYS.attacker.pem },
      { keys: 'https://login.example/jwks' },
      { keys: 'https://other.example/jwks' },
      { discovery: true },
    ];
    expect(new Set(all.map(registration)).size).toBe(all.length);
  });
});
