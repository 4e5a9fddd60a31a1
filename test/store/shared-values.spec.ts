import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { Logger } from '@nestjs/common';
import type { SharedStore, StoreMessage } from '../../lib/index.js';
import { checkOptions } from '../../lib/options/check-options.js';
import { Outbox } from '../../lib/store/outbox.service.js';
import { ReplayCache } from '../../lib/store/replay-cache.service.js';
import { Sealer } from '../../lib/store/sealer.service.js';
import { SharedValues } from '../../lib/store/shared-values.service.js';
import { Clock } from '../../lib/time/clock.js';
import { claim, isRecorded, MemoryStore, THROWING_STORE, valueOf } from './memory-store.js';
import { TestClock } from '../support/clock.js';
import { pause } from '../support/wait.js';

const SECRET = 'the first secret of the store tests, long';
const NEWER = 'the second secret of the store tests, too';

interface Process {
  sealer: Sealer;
  values: SharedValues;
  replays: ReplayCache;
}

/** The services of one process of a host. */
function startProcess(
  store: SharedStore | undefined,
  secrets = [SECRET],
  clock: Clock = new Clock(),
): Process {
  const options = checkOptions({
    tenant: {
      tenantId: 'acme',
      baseUrl: 'https://api.example',
      authUrl: 'https://login.example',
      clientId: 'acme-api',
      clientSecret: 'secret',
    },
    secrets,
    store,
  });
  const sealer = new Sealer(options, clock);
  const values = new SharedValues(options, sealer, clock);
  const outbox = new Outbox(values, clock);
  outboxes.push(outbox);
  return { sealer, values, replays: new ReplayCache(values, outbox, clock) };
}

const outboxes: Outbox[] = [];
let store: MemoryStore;
let warnings: string[];
beforeEach(() => {
  store = new MemoryStore();
  warnings = [];
  jest.spyOn(Logger.prototype, 'warn').mockImplementation((message: unknown) => {
    warnings.push(String(message));
  });
});
afterEach(async () => {
  store.failure = 'none';
  // What the store has not taken must not be written during the next test.
  await Promise.all(outboxes.splice(0).map((outbox) => outbox.beforeApplicationShutdown()));
  jest.restoreAllMocks();
});

const PERSON = { email: 'sam.several@example.com', token: 'abc.def.ghi', list: [1, { two: null }] };

describe('values in a shared store', () => {
  it('are readable for every process with the secret', async () => {
    const [one, other] = [startProcess(store), startProcess(store)];
    expect(await one.values.set('lookup', 'sam.several@example.com', PERSON, 60_000)).toBe(true);
    expect(await valueOf(other.values, 'lookup', 'sam.several@example.com')).toEqual(PERSON);
    await other.values.delete('lookup', 'sam.several@example.com');
    expect(await valueOf(one.values, 'lookup', 'sam.several@example.com')).toBeUndefined();
  });

  it('are sealed and their keys are digests: the store shows neither address nor token', async () => {
    const { values } = startProcess(store);
    await values.set('lookup', `acme/world-2026/${PERSON.email}`, PERSON, 60_000);
    expect(store.raw.size).toBe(1);
    expect([...store.raw.keys()][0]).toMatch(/^nestjs-exhibitor:lookup:[\w-]{43}$/);
    for (const secret of [PERSON.email, 'sam.several', PERSON.token, 'world-2026']) {
      expect(store.dump).not.toContain(secret);
      expect(store.dump).not.toContain(Buffer.from(secret).toString('base64').replace(/=+$/, ''));
    }
  });

  it('are separate for each kind', async () => {
    const { values } = startProcess(store);
    await values.set('token', 'acme', 1, 60_000);
    await values.set('lookup', 'acme', 2, 60_000);
    expect([await valueOf(values, 'token', 'acme'), await valueOf(values, 'lookup', 'acme')]).toEqual([1, 2]);
  });

  it('are set once with ifAbsent', async () => {
    const [one, other] = [startProcess(store), startProcess(store)];
    expect(await one.values.set('state', 'x', 1, 60_000, { ifAbsent: true })).toBe(true);
    expect(await other.values.set('state', 'x', 2, 60_000, { ifAbsent: true })).toBe(false);
    expect(await valueOf(other.values, 'state', 'x')).toBe(1);
  });

  it('expire, also where the store keeps them longer', async () => {
    const { values } = startProcess(store);
    await values.set('token', 'acme', 1, 20);
    for (const entry of store.raw.values()) {
      entry.until = Number.POSITIVE_INFINITY;
    }
    await pause(40);
    expect(await valueOf(values, 'token', 'acme')).toBeUndefined();
  });

  it('are not readable without the secret', async () => {
    await startProcess(store).values.set('token', 'acme', 1, 60_000);
    expect(await valueOf(startProcess(store, [NEWER]).values, 'token', 'acme')).toBeUndefined();
  });

  it('are readable after a rotation of the secret: all secrets open, the first seals', async () => {
    const before = startProcess(store, [SECRET]);
    const appended = startProcess(store, [SECRET, NEWER]);
    const promoted = startProcess(store, [NEWER, SECRET]);
    await before.values.set('token', 'a', 1, 60_000);
    await appended.values.set('token', 'b', 2, 60_000);
    await promoted.values.set('token', 'c', 3, 60_000);
    expect(await valueOf(promoted.values, 'token', 'a')).toBe(1);
    expect(await valueOf(promoted.values, 'token', 'b')).toBe(2);
    expect(await valueOf(appended.values, 'token', 'c')).toBe(3);
    expect(await valueOf(before.values, 'token', 'b')).toBe(2);
    expect(await valueOf(before.values, 'token', 'c')).toBeUndefined();
  });

  it.each(['', 'nonsense', 'a.b.c.d.e', '{"until":9e15,"value":1}', 'null'])(
    'are ignored where something else wrote them: %j',
    async (planted) => {
      const { values } = startProcess(store);
      await values.set('token', 'acme', 1, 60_000);
      for (const entry of store.raw.values()) {
        entry.value = planted;
      }
      expect(await valueOf(values, 'token', 'acme')).toBeUndefined();
    },
  );

  it('are ignored where they are longer than 1 MiB', async () => {
    const { values } = startProcess(store);
    await values.set('token', 'acme', 'x'.repeat(700_000), 60_000);
    expect(typeof (await valueOf(values, 'token', 'acme'))).toBe('string');
    await values.set('token', 'acme', 'x'.repeat(800_000), 60_000);
    expect(typeof (await valueOf(values, 'token', 'acme'))).toBe('undefined');
  });

  it.each(['.', 'A.'])('are not split where they are giants of many parts: %j', async (part) => {
    const { values } = startProcess(store);
    await values.set('token', 'acme', 1, 60_000);
    for (const entry of store.raw.values()) {
      entry.value = `${entry.value.split('.', 1)[0]}..${part.repeat(10_000_000)}`;
    }
    const began = process.cpuUsage();
    expect(await valueOf(values, 'token', 'acme')).toBeUndefined();
    expect(process.cpuUsage(began).user / 1_000).toBeLessThan(100);
  });

  it('are not accepted for another purpose: neither login nor identity opens', async () => {
    const { sealer, values } = startProcess(store);
    await values.set('token', 'acme', { tenant: 'acme' }, 60_000);
    const [entry] = store.raw.values();
    expect(await sealer.open('store', entry?.value ?? '')).toMatchObject({ value: { tenant: 'acme' } });
    expect(await sealer.open('login', entry?.value ?? '')).toBeUndefined();
    expect(await sealer.open('identity', entry?.value ?? '')).toBeUndefined();
  });

  it('open under their own key only', async () => {
    const { values } = startProcess(store);
    await values.set('token', 'acme', 'of acme', 60_000);
    await values.set('token', 'globex', 'of globex', 60_000);
    const [acme, globex] = store.raw.values();
    if (acme === undefined || globex === undefined) {
      throw new Error('both are stored');
    }
    [acme.value, globex.value] = [globex.value, acme.value];
    expect([await valueOf(values, 'token', 'acme'), await valueOf(values, 'token', 'globex')]).toEqual([
      undefined,
      undefined,
    ]);
  });

  it('are not stored without a store', async () => {
    const { values } = startProcess(undefined);
    expect(values.enabled).toBe(false);
    expect(await values.set('token', 'acme', 1, 60_000)).toBeUndefined();
    expect(await valueOf(values, 'token', 'acme')).toBeUndefined();
    await values.delete('token', 'acme');
    expect(warnings).toEqual([]);
  });
});

describe('a store that fails', () => {
  it.each(['throws', 'rejects', 'hangs'] as const)('and %s causes a miss and a warning', async (failure) => {
    const { values, replays } = startProcess(store);
    store.failure = failure;
    const began = performance.now();
    const answers = await Promise.all([
      valueOf(values, 'token', 'acme'),
      values.set('token', 'acme', 1, 60_000),
      values.delete('token', 'acme'),
      claim(replays, 'spent-logout-token', 'x', 60_000),
      isRecorded(replays, 'denied-identity', 'y'),
    ]);
    expect(answers).toEqual([undefined, undefined, undefined, true, false]);
    // A hanging store is waited for 1 s, far below the deadline of a call.
    expect(performance.now() - began).toBeLessThan(5_000);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(/^the shared store does not answer \(\w*Error\); continuing without it$/);
    expect(warnings[0]).not.toMatch(/s3cret|10\.0\.0\.1/);
  });

  it.each([
    ['name\n[Nest] 1 - LOG forged', 'name [Nest] 1 - LOG forged'],
    ['of zoe.private@example.com', 'of [removed]'],
    ['n'.repeat(5_000), `${'n'.repeat(100)}…`],
    [undefined, 'unknown error'],
    [{ name: 'an object' }, 'unknown error'],
  ])('and fails with an error of any name is a miss and a short warning: %j', async (name, shown) => {
    const failing = Object.assign(new MemoryStore(), {
      get: () => Promise.reject(Object.assign(new Error('s3cret'), { name })),
    });
    expect(await valueOf(startProcess(failing).values, 'token', 'acme')).toBeUndefined();
    expect(warnings).toEqual([`the shared store does not answer (${shown}); continuing without it`]);
  });

  it('and hangs is not called for a while, so that not every call waits for it', async () => {
    const { values } = startProcess(store);
    store.failure = 'hangs';
    await valueOf(values, 'token', 'acme');
    store.calls = 0;
    const began = performance.now();
    for (let turn = 0; turn < 20; turn++) {
      await valueOf(values, 'token', 'acme');
    }
    expect(store.calls).toBe(0);
    expect(performance.now() - began).toBeLessThan(1_000);
  });

  it('and hangs is then probed by one call, and used again when it answers', async () => {
    const clock = new TestClock();
    const { values } = startProcess(store, [SECRET], clock);
    store.failure = 'hangs';
    await valueOf(values, 'token', 'acme');
    clock.ahead = 6_000;
    store.calls = 0;
    const probe = valueOf(values, 'token', 'acme');
    await valueOf(values, 'token', 'acme');
    expect(store.calls).toBe(1);
    await probe;
    clock.ahead = 12_000;
    store.failure = 'none';
    await values.set('token', 'acme', 1, 60_000);
    expect(await Promise.all([1, 2].map(() => valueOf(values, 'token', 'acme')))).toEqual([1, 1]);
  });

  it('is reported on nestjs-exhibitor:store, beside hits and misses', async () => {
    const messages: StoreMessage[] = [];
    const collect = (message: unknown): void => void messages.push(message as StoreMessage);
    subscribe('nestjs-exhibitor:store', collect);
    const [{ replays }, other] = [startProcess(store), startProcess(store)];
    await isRecorded(replays, 'denied-identity', 'x');
    await claim(other.replays, 'denied-identity', 'x', 60_000);
    await isRecorded(replays, 'denied-identity', 'x');
    store.failure = 'rejects';
    await isRecorded(replays, 'denied-identity', 'x');
    unsubscribe('nestjs-exhibitor:store', collect);
    const outcomes = messages.filter(({ kind }) => kind === 'denied-identity').map(({ outcome }) => outcome);
    expect(outcomes).toEqual(['miss', 'hit', 'failed']);
  });

  it('causes a miss also where it throws before it returns a promise', async () => {
    const { values } = startProcess(THROWING_STORE);
    expect(await valueOf(values, 'token', 'acme')).toBeUndefined();
    expect(await values.set('token', 'acme', 1, 60_000)).toBeUndefined();
    await values.delete('token', 'acme');
    expect(warnings).toHaveLength(1);
  });

  it('is used again when it works', async () => {
    const { values } = startProcess(store);
    // The first one loads jose, which may take as long as silence of the store.
    expect(await values.set('token', 'acme', 0, 60_000)).toBe(true);
    store.failure = 'rejects';
    expect(await values.set('token', 'acme', 1, 60_000)).toBeUndefined();
    store.failure = 'none';
    expect(await values.set('token', 'acme', 2, 60_000)).toBe(true);
    expect(await valueOf(values, 'token', 'acme')).toBe(2);
  });
});

describe('the replay cache', () => {
  it('accepts a mark once, in a process and across processes', async () => {
    const [one, other] = [startProcess(store), startProcess(store)];
    expect(await claim(one.replays, 'spent-logout-token', 'x', 60_000)).toBe(true);
    expect(await claim(one.replays, 'spent-logout-token', 'x', 60_000)).toBe(false);
    expect(await claim(other.replays, 'spent-logout-token', 'x', 60_000)).toBe(false);
    expect(await isRecorded(other.replays, 'spent-logout-token', 'x')).toBe(true);
    expect(await isRecorded(other.replays, 'denied-identity', 'x')).toBe(false);
  });

  it('accepts a mark once of many at the same time', async () => {
    const processes = Array.from({ length: 50 }, () => startProcess(store));
    const claims = await Promise.all(
      processes.map(({ replays }) => claim(replays, 'spent-logout-token', 'x', 60_000)),
    );
    expect(claims.filter((isFirst) => isFirst)).toHaveLength(1);
  });

  it('keeps marks in the process without a store', async () => {
    const [one, other] = [startProcess(undefined), startProcess(undefined)];
    expect(await claim(one.replays, 'spent-logout-token', 'x', 60_000)).toBe(true);
    expect(await claim(one.replays, 'spent-logout-token', 'x', 60_000)).toBe(false);
    expect(await isRecorded(one.replays, 'spent-logout-token', 'x')).toBe(true);
    expect(await claim(other.replays, 'spent-logout-token', 'x', 60_000)).toBe(true);
  });

  it('end with their time', async () => {
    const { replays } = startProcess(undefined);
    await claim(replays, 'denied-identity', 'x', 20);
    await pause(40);
    expect(await isRecorded(replays, 'denied-identity', 'x')).toBe(false);
  });

  it('keeps the last 100,000 marks', async () => {
    const { replays } = startProcess(undefined);
    for (let index = 0; index <= 100_000; index++) {
      await claim(replays, 'spent-logout-token', `s${index}`, 60_000);
    }
    expect(await isRecorded(replays, 'spent-logout-token', 's0')).toBe(false);
    expect(await isRecorded(replays, 'spent-logout-token', 's1')).toBe(true);
    expect(await isRecorded(replays, 'spent-logout-token', 's100000')).toBe(true);
  });
});
