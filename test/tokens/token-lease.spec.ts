import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { HttpOptions, StoreMessage } from '../../lib/index.js';
import { lookAgainAfter } from '../../lib/tokens/token-lease.js';
import { sendJson } from '../support/server.js';
import { eventually, pause } from '../support/wait.js';
import { MemoryStore } from '../store/memory-store.js';
import { granted, TokenBench, type Answer } from './token-bench.js';

let store: MemoryStore;
let messages: StoreMessage[];
let benches: TokenBench[];
const collect = (message: unknown): void => void messages.push(message as StoreMessage);
beforeEach(() => {
  store = new MemoryStore();
  messages = [];
  benches = [];
  subscribe('nestjs-exhibitor:store', collect);
});
afterEach(async () => {
  unsubscribe('nestjs-exhibitor:store', collect);
  await Promise.all(benches.map((bench) => bench.stop()));
});

/** Processes of one host. The first one's server is the token endpoint of all. */
async function startProcesses(
  count: number,
  answer: Answer,
  http: HttpOptions = {},
): Promise<[TokenBench, ...TokenBench[]]> {
  const one = await TokenBench.start(answer, { acme: {} }, http, store);
  benches.push(one);
  for (let index = 1; index < count; index++) {
    benches.push(await TokenBench.start(answer, { acme: { authUrl: one.url } }, http, store));
  }
  return [one, ...benches.slice(1)];
}

const textOf = async (bench: TokenBench): Promise<string> => (await bench.tokens.getToken()).accessToken;
const textsOf = (all: readonly TokenBench[]): Promise<string[]> => Promise.all(all.map(textOf));
const outcomes = (wanted: StoreMessage['outcome']): StoreMessage[] =>
  messages.filter(({ kind, outcome }) => kind === 'token' && outcome === wanted);
const never: Answer = () => new Promise(() => undefined);
const slowly: Answer = async (...request) => {
  await pause(60);
  return granted()(...request);
};
/** The lease in the store. */
const lease = (): { value: string; until: number } | undefined =>
  [...store.raw].find(([key]) => key.includes(':token-lease:'))?.[1];

/** A process that takes the lease and never gets an answer. */
async function startHolder(all: readonly [TokenBench, ...TokenBench[]]): Promise<void> {
  const [one, holder = one] = all;
  const { answer } = one;
  one.answer = never;
  void textOf(holder).catch(() => undefined);
  await eventually(() => one.posts.length === 1);
  one.answer = answer;
}

describe('the lease on a token request', () => {
  it('lets one process ask, and the others get its token', async () => {
    const all = await startProcesses(8, slowly);
    expect(new Set(await textsOf(all))).toEqual(new Set(['token-1']));
    expect(all[0].posts).toHaveLength(1);
    expect([outcomes('leased').length, outcomes('waited').length]).toEqual([1, 7]);
    const [late] = await startProcesses(1, slowly);
    expect(late.posts).toHaveLength(0);
  });

  it('is that of its holder while the store has it, also for a process to which it has lapsed', async () => {
    const all = await startProcesses(3, slowly);
    await startHolder(all);
    const [one, , ahead = one] = all;
    ahead.clock.ahead = 3_000;
    void textOf(ahead).catch(() => undefined);
    await pause(500);
    expect(one.posts).toHaveLength(1);
  });

  it('lapses as soon as its holder is done, and is never deleted', async () => {
    const [one] = await startProcesses(1, slowly);
    const text = textOf(one);
    await eventually(() => one.posts.length === 1);
    const left = (lease()?.until ?? 0) - Date.now();
    expect(left).toBeGreaterThan(1_000);
    expect(left).toBeLessThanOrEqual(3_000);
    await text;
    await eventually(() => (lease()?.until ?? Infinity) <= Date.now());
    expect(lease()).toBeDefined();
  });

  it('is taken over by one process when it lapses, because its holder was killed', async () => {
    const all = await startProcesses(5, slowly);
    await startHolder(all);
    const [one, , ...others] = all;
    const texts = textsOf(others);
    await pause(100);
    expect(one.posts).toHaveLength(1);
    store.skip(3_000);
    expect(new Set(await texts)).toEqual(new Set(['token-2']));
    expect(one.posts).toHaveLength(2);
  });

  it('stays as it is where its former holder is done late', async () => {
    const all = await startProcesses(2, granted());
    const [one, other = one] = all;
    let finish = (): void => undefined;
    one.answer = async (...request) => {
      await new Promise<void>((resolve) => (finish = resolve));
      return granted()(...request);
    };
    const late = textOf(one);
    await eventually(() => one.posts.length === 1);
    const finishLate = finish;
    one.clock.ahead = 3_000;
    store.skip(3_000);
    const next = textOf(other);
    await eventually(() => one.posts.length === 2);
    finishLate();
    expect(await late).toBe('token-1');
    expect((lease()?.until ?? 0) - Date.now()).toBeGreaterThan(1_000);
    finish();
    expect(await next).toBe('token-2');
  });

  it('is waited for until half of the deadline: then each process asks', async () => {
    const all = await startProcesses(4, granted(), { deadline: 1_000 });
    await startHolder(all);
    const [one, , ...others] = all;
    const began = performance.now();
    await textsOf(others);
    expect(performance.now() - began).toBeGreaterThan(450);
    expect(performance.now() - began).toBeLessThan(900);
    expect(one.posts.length).toBeGreaterThan(1);
  });

  it('is waited for until half of the deadline of a call, also of one that joins a longer wait', async () => {
    const all = await startProcesses(4, granted());
    await startHolder(all);
    const [, , waiting, joined] = all;
    const began = performance.now();
    const early = joined && textOf(joined);
    const statuses = await Promise.all([waiting?.call(1_000), joined?.call(600), joined?.call(1_000)]);
    expect(statuses).toEqual([200, 200, 200]);
    expect(performance.now() - began).toBeGreaterThan(250);
    expect(performance.now() - began).toBeLessThan(900);
    expect(await early).toMatch(/^token-/);
  });

  it('is waited for until half of the deadline, however long the secret and the store take', async () => {
    const [one] = await startProcesses(1, granted());
    const clientSecret = async (): Promise<string> => {
      await pause(300);
      return 'acme secret/+&';
    };
    const slow = await TokenBench.start(
      granted(),
      { acme: { authUrl: one.url, clientSecret } },
      { deadline: 1_000 },
      store,
    );
    benches.push(slow);
    await startHolder([one]);
    const get = store.get.bind(store);
    store.get = async (key) => {
      await pause(300);
      return get(key);
    };
    const began = performance.now();
    expect(await textOf(slow)).toBe('token-2');
    expect(performance.now() - began).toBeLessThan(900);
  });

  it('delays no token that has arrived, and is released after the token is shared, in a slow store', async () => {
    const [one, other = one] = await startProcesses(2, granted(), { deadline: 1_000 });
    const set = store.set.bind(store);
    store.set = async (key, value, options) => {
      await pause(options.ifAbsent === true ? 0 : 400);
      return set(key, value, options);
    };
    const began = performance.now();
    expect(await textOf(one)).toBe('token-1');
    expect(performance.now() - began).toBeLessThan(350);
    expect(await textOf(other)).toBe('token-1');
    expect(one.posts).toHaveLength(1);
  });

  it.each(['rubbish', ''])('is none where it does not open, however long it lives: %j', async (rubbish) => {
    const [one, other, ...more] = await startProcesses(4, slowly);
    await textOf(one);
    for (const [key, entry] of store.raw) {
      entry.value = rubbish;
      entry.until = Number.POSITIVE_INFINITY;
      if (!key.includes(':token-lease:')) {
        store.raw.delete(key);
      }
    }
    const began = performance.now();
    const texts = await textsOf([other ?? one, ...more]);
    expect(performance.now() - began).toBeLessThan(1_000);
    expect(texts).toHaveLength(3);
    expect(lease()?.value).not.toBe(rubbish);
  });

  it.each<[string, Answer]>([
    ['fails', (_form, _count, response) => sendJson(response, {}, 503)],
    ['gets a token that cannot be shared', granted({ expires_in: 0 })],
  ])('passes to the next process at once where its holder %s', async (_what, answer) => {
    const all = await startProcesses(4, answer, { attempts: 1 });
    const began = performance.now();
    await Promise.allSettled(all.map(textOf));
    expect(performance.now() - began).toBeLessThan(950);
    expect(all[0].posts).toHaveLength(4);
  });

  it('is not waited for after the deadline', async () => {
    const all = await startProcesses(3, granted());
    await startHolder(all);
    const [, , waiting] = all;
    const text = waiting && textOf(waiting);
    await pause(50);
    waiting?.deadlines.close();
    await expect(text).rejects.toMatchObject({ code: 'service_unavailable' });
    expect(all[0].posts).toHaveLength(1);
  });
});

describe('the time before the next look', () => {
  it('doubles to 120 ms, half more or less', () => {
    expect([0, 1, 2, 9].map((turn) => lookAgainAfter(turn, 0.5))).toEqual([30, 60, 120, 120]);
    expect([lookAgainAfter(0, 0), lookAgainAfter(9, 1)]).toEqual([15, 180]);
  });
});
