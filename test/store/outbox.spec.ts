import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import type { SharedStore } from '../../lib/index.js';
import { checkOptions } from '../../lib/options/check-options.js';
import { MAX_ENTRIES, Outbox, retryDelay } from '../../lib/store/outbox.service.js';
import { ReplayCache } from '../../lib/store/replay-cache.service.js';
import { Sealer } from '../../lib/store/sealer.service.js';
import { SharedValues } from '../../lib/store/shared-values.service.js';
import { TestClock } from '../support/clock.js';
import { aWhile, eventually } from '../support/wait.js';
import { claim, isRecorded, MemoryStore } from './memory-store.js';

const TTL = 3_600_000;

interface Process {
  clock: TestClock;
  outbox: Outbox;
  replays: ReplayCache;
}

let store: MemoryStore;
let logouts: string[];
let processes: Process[];
beforeEach(() => {
  store = new MemoryStore();
  logouts = [];
  processes = [];
  jest.spyOn(Logger.prototype, 'warn').mockImplementation((message: unknown) => {
    logouts.push(...[String(message)].filter((line) => line.includes('logout')));
  });
});
afterEach(async () => {
  store.failure = 'none';
  await Promise.all(processes.map(({ outbox }) => outbox.beforeApplicationShutdown()));
  jest.restoreAllMocks();
});

function startProcess(shared: SharedStore = store): Process {
  const options = checkOptions({
    tenant: {
      tenantId: 'acme',
      baseUrl: 'https://api.example',
      authUrl: 'https://login.example',
      clientId: 'acme-api',
      clientSecret: 'secret',
    },
    secrets: ['the secret of the tests of the outbox, long'],
    store: shared,
  });
  const clock = new TestClock();
  const values = new SharedValues(options, new Sealer(options, clock), clock);
  const outbox = new Outbox(values, clock);
  const started = { clock, outbox, replays: new ReplayCache(values, outbox, clock) };
  processes.push(started);
  return started;
}

/** Lets the back-off pass. */
function skipDelay({ clock }: Process): void {
  clock.ahead += 10_000;
}

describe('records that the store has not taken', () => {
  it.each(['denied-identity', 'spent-logout-token'] as const)('are written again: %s', async (kind) => {
    const [one, other] = [startProcess(), startProcess()];
    store.failure = 'rejects';
    await claim(one.replays, kind, 'x', TTL);
    store.failure = 'none';
    skipDelay(one);
    await eventually(() => isRecorded(other.replays, kind, 'x'));
    expect(await claim(other.replays, 'spent-logout-token', 'x', TTL)).toBe(kind === 'denied-identity');
    expect(await isRecorded(other.replays, kind, 'y')).toBe(false);
  });

  it('are written no more once they are no longer needed', async () => {
    const one = startProcess();
    store.failure = 'rejects';
    await claim(one.replays, 'denied-identity', 'short', 1_000);
    await claim(one.replays, 'denied-identity', 'long', TTL);
    one.clock.ahead += 1_000;
    store.failure = 'none';
    skipDelay(one);
    await eventually(() => store.raw.size > 0);
    await aWhile();
    expect(store.raw.size).toBe(1);
    expect(await isRecorded(startProcess().replays, 'denied-identity', 'long')).toBe(true);
  });

  it('live in the store for what is left of their time', async () => {
    const one = startProcess();
    store.failure = 'rejects';
    await claim(one.replays, 'denied-identity', 'x', TTL);
    one.clock.ahead += TTL / 2;
    store.failure = 'none';
    await eventually(() => store.raw.size > 0);
    const left = [...store.raw.values()].map(({ until }) => until - Date.now());
    expect(left[0]).toBeGreaterThan(TTL / 2 - 10_000);
    expect(left[0]).toBeLessThanOrEqual(TTL / 2);
  });

  it('are tried with back-off, one attempt for all, and logged once a minute', async () => {
    const one = startProcess();
    store.failure = 'rejects';
    await Promise.all(
      Array.from({ length: 500 }, (_, index) => claim(one.replays, 'denied-identity', `x${index}`, TTL)),
    );
    for (let round = 0; round < 3; round++) {
      const before = store.calls;
      skipDelay(one);
      await eventually(() => store.calls > before);
      await aWhile();
      expect(store.calls - before).toBeLessThanOrEqual(200);
    }
    expect(logouts.length).toBeGreaterThanOrEqual(1);
    expect(logouts.length).toBeLessThanOrEqual(2);
    store.failure = 'none';
    skipDelay(one);
    await eventually(() => store.raw.size === 500);
    const after = store.calls;
    skipDelay(one);
    await aWhile();
    await aWhile();
    expect(store.calls).toBe(after);
  });

  it('are bounded: a flood of states pushes out its own oldest, no logout, and delays none by a batch', async () => {
    const one = startProcess();
    const spend = (tenant: string, name: string) =>
      one.replays.record({ kind: 'spent-logout-token', name }, tenant, TTL);
    store.failure = 'hangs';
    // The first one makes the store pause; the others are not even sent.
    await claim(one.replays, 'denied-identity', 'kept', TTL);
    await spend('flood', 'oldest');
    await spend('acme', 'x');
    for (let index = 0; index < MAX_ENTRIES; index++) {
      await spend('flood', `f${index}`);
    }
    await spend('globex', 'y');
    store.failure = 'none';
    const written = jest.spyOn(store, 'set');
    skipDelay(one);
    await eventually(() => store.raw.size >= 3);
    expect(written.mock.calls.length).toBeLessThanOrEqual(200);
    const other = startProcess();
    expect(await isRecorded(other.replays, 'denied-identity', 'kept')).toBe(true);
    const found = ['x', 'y', 'oldest'].map((name) => isRecorded(other.replays, 'spent-logout-token', name));
    expect(await Promise.all(found)).toEqual([true, true, false]);
    const here = (name: string) => one.replays.recordedHere({ kind: 'spent-logout-token', name });
    expect(['x', 'y', 'oldest'].map(here)).toEqual([true, true, undefined]);
  });

  it('are written beside a login that ends meanwhile, which is not refused', async () => {
    const one = startProcess();
    store.failure = 'rejects';
    await claim(one.replays, 'denied-identity', 'x', TTL);
    store.failure = 'none';
    store.delay = 500;
    const login = claim(one.replays, 'spent-logout-token', 'y', TTL);
    skipDelay(one);
    expect(await login).toBe(true);
    expect(await isRecorded(startProcess().replays, 'denied-identity', 'x')).toBe(true);
  });

  it('leave a later logout that another process has recorded meanwhile', async () => {
    const [one, other] = [startProcess(), startProcess()];
    store.failure = 'rejects';
    await one.replays.recordLogout('user', 'acme', 100, TTL);
    store.failure = 'none';
    await other.replays.recordLogout('user', 'acme', 200, TTL);
    skipDelay(one);
    await eventually(() => !one.outbox.has('logged-out', 'user'));
    const name = { kind: 'logged-out', name: 'user' } as const;
    expect(await startProcess().replays.find(name)).toEqual({ value: 200, isCertain: true });
  });

  it('replace what else is under the key of a logout', async () => {
    const [one, other] = [startProcess(), startProcess()];
    await claim(one.replays, 'denied-identity', 'x', TTL);
    for (const entry of store.raw.values()) {
      entry.value = 'rubbish';
    }
    const third = startProcess();
    await claim(third.replays, 'denied-identity', 'x', TTL);
    expect(await isRecorded(other.replays, 'denied-identity', 'x')).toBe(true);
  });

  it('include those that a full store refuses', async () => {
    let isFull = true;
    const full: SharedStore = {
      get: (key) => store.get(key),
      set: async (key, value, options) => !isFull && store.set(key, value, options),
      delete: (key) => store.delete(key),
    };
    const one = startProcess(full);
    await claim(one.replays, 'denied-identity', 'x', TTL);
    isFull = false;
    skipDelay(one);
    await eventually(() => isRecorded(startProcess().replays, 'denied-identity', 'x'));
  });

  it('leave none behind where the store takes them at once', async () => {
    const one = startProcess();
    await claim(one.replays, 'denied-identity', 'x', TTL);
    await claim(one.replays, 'spent-logout-token', 'x', TTL);
    const calls = store.calls;
    await one.outbox.beforeApplicationShutdown();
    expect(store.calls).toBe(calls);
    expect(logouts).toEqual([]);
  });
});

describe('the delay before the next attempt', () => {
  it('doubles up to 10 s, and the last half is random', () => {
    expect([0, 1, 2].map((failures) => retryDelay(failures, 1))).toEqual([250, 500, 1_000]);
    expect(retryDelay(0, 0)).toBe(125);
    for (const failures of [7, 20, 5_000]) {
      expect([retryDelay(failures, 0), retryDelay(failures, 1)]).toEqual([5_000, 10_000]);
    }
  });
});
