import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { HttpOptions, TenantOptions } from '../../lib/index.js';
import { MemoryStore } from '../store/memory-store.js';
import { granted, refused, TokenBench, type Answer } from './token-bench.js';
import { eventually, pause } from '../support/wait.js';

const SECOND = 1_000;
const HOUR = 3_600 * SECOND;
let store: MemoryStore;
beforeEach(() => {
  store = new MemoryStore();
});
const benches: TokenBench[] = [];
afterEach(async () => {
  for (const bench of benches.splice(0)) {
    await bench?.stop();
  }
});

interface FleetOptions {
  http?: HttpOptions;
  answer?: Answer;
  /** Options of the tenant in each process. */
  tenants?: readonly Partial<TenantOptions>[];
}

/** Processes of one host: equal tenants, one store. The first one's server is the token endpoint and the REST API of all. */
async function fleet(
  count: number,
  { http = {}, answer = granted(), tenants = [] }: FleetOptions = {},
): Promise<[TokenBench, ...TokenBench[]]> {
  const one = await TokenBench.start(answer, { acme: tenants[0] ?? {} }, http, store);
  benches.push(one);
  const others: TokenBench[] = [];
  for (let index = 1; index < count; index++) {
    const acme = { authUrl: one.url, baseUrl: one.url, ...tenants[index] };
    others.push(await TokenBench.start(answer, { acme }, http, store));
  }
  benches.push(...others);
  return [one, ...others];
}

/** Time passes, for the processes and for their store, once it has the token. */
async function pass(ms: number): Promise<void> {
  await eventually(() => stored().length === 1);
  benches.forEach(({ clock }) => (clock.ahead = ms));
  store.skip(ms);
}

/** The tokens in the store. Callers do not wait until theirs is there. */
const stored = (): { value: string; until: number }[] =>
  [...store.raw].filter(([key]) => key.includes(':token:')).map(([, entry]) => entry);

const textOf = async (bench: TokenBench): Promise<string> => (await bench.tokens.getToken()).accessToken;
const textsOf = (all: readonly TokenBench[]): Promise<string[]> => Promise.all(all.map(textOf));
const times = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value);

const slowly =
  (answer: Answer): Answer =>
  async (form, count, response) => {
    await pause(30);
    return answer(form, count, response);
  };

describe('processes that share a store', () => {
  it('share a token with its remaining lifetime', async () => {
    const [one, two] = await fleet(2);
    const first = await one.tokens.getToken();
    await pass(1_000_000);
    const second = await two?.tokens.getToken();
    expect(second).toMatchObject({ accessToken: 'token-1', scope: 'idp_api', tokenType: 'Bearer' });
    expect(Math.abs(Number(second?.expiresAt) - first.expiresAt.getTime())).toBeLessThan(5_000);
    expect(one.posts).toHaveLength(1);
    expect(two?.messages.map(({ outcome }) => outcome)).toContain('shared');
  });

  it('send one token request where all of them start at the same time', async () => {
    const all = await fleet(8, { answer: slowly(granted()) });
    expect(await textsOf(all)).toEqual(times(8, 'token-1'));
    expect(all[0].posts).toHaveLength(1);
  });

  it('share the renewal of an expired token', async () => {
    const all = await fleet(4, { answer: slowly(granted()) });
    await textsOf(all);
    await pass(HOUR + SECOND);
    expect(await textsOf(all)).toEqual(times(4, 'token-2'));
    expect(all[0].posts).toHaveLength(2);
  });

  it('use a token in its early window, and renew it once', async () => {
    const [one, two] = await fleet(2, { answer: slowly(granted()) });
    await textOf(one);
    await pass(HOUR - 50 * SECOND);
    expect(await textsOf([one, two ?? one])).toEqual(['token-1', 'token-1']);
    await eventually(async () => (await textsOf(benches)).every((text) => text === 'token-2'));
    expect(one.posts).toHaveLength(2);
  });

  it('share no token where the secret, the client or the scope differs', async () => {
    const clientSecret = () => 'another secret';
    const all = await fleet(4, { tenants: [{}, { clientSecret }, { clientId: 'other' }, { scope: 'x' }] });
    expect(await textsOf(all)).toHaveLength(4);
    expect(all[0].posts.map((form) => form.get('client_secret'))).toContain('another secret');
    expect(all[0].posts).toHaveLength(4);
  });

  it('store neither a readable token nor a secret', async () => {
    const [one] = await fleet(1);
    await textOf(one);
    expect(store.raw.size).toBeGreaterThan(0);
    expect(store.dump).not.toMatch(/token-1|acme secret/);
  });

  it('store no expired token', async () => {
    const all = await fleet(2, { answer: granted({ expires_in: 0 }) });
    expect((await textsOf(all)).toSorted()).toEqual(['token-1', 'token-2']);
    expect(stored()).toEqual([]);
  });
});

describe('a token that the service refused', () => {
  it('is replaced once for all processes, and no call fails', async () => {
    const all = await fleet(4, { answer: slowly(granted()) });
    await textsOf(all);
    all[0].revoked.add('token-1');
    const calls = all.flatMap((bench) => times(5, bench)).map((bench) => bench.call());
    expect(await Promise.all(calls)).toEqual(times(20, 200));
    expect(all[0].posts).toHaveLength(2);
  });

  it('is replaced by one of the endpoint where that in the store may be revoked as well', async () => {
    // Both asked while the store was down; it then got that of the second process.
    store.failure = 'rejects';
    const [one, two] = await fleet(2);
    await textOf(one);
    store.failure = 'none';
    await two?.tokens.getToken();
    benches.forEach(({ clock }) => (clock.ahead = 6 * SECOND));
    one.revoked.add('token-1').add('token-2');
    expect(await one.call()).toBe(200);
    expect(one.received).toEqual(['token-1', 'token-3']);
    expect(await two?.call()).toBe(200);
  });

  it('costs each call one more request: a second 401 is access_denied', async () => {
    const [one] = await fleet(1);
    for (let count = 1; count < 20; count++) {
      one.revoked.add(`token-${count}`);
    }
    expect(await one.call()).toBe('access_denied');
    expect(one.received).toEqual(['token-1', 'token-2']);
  });
});

describe('a token in the store', () => {
  it('counts only if it expires later than the one held', async () => {
    store.failure = 'rejects';
    const [one, two] = await fleet(2);
    await textOf(one);
    store.failure = 'none';
    one.answer = granted({ expires_in: 3_590 });
    await two?.tokens.getToken();
    await eventually(() => stored().length === 1);
    one.answer = granted();
    // The early window of the first process: the token in the store ends ten seconds earlier.
    one.clock.ahead = HOUR - 29 * SECOND;
    const seen = new Set<string>();
    await eventually(async () => seen.add(await textOf(one)).has('token-3'));
    expect([...seen]).toEqual(['token-1', 'token-3']);
  });
});

describe('an invalidated token', () => {
  it('is not taken from the store by a process that holds none', async () => {
    const [one, two] = await fleet(2);
    await textOf(one);
    await two?.tokens.invalidate();
    expect(await two?.tokens.getToken()).toMatchObject({ accessToken: 'token-2' });
    expect(one.posts).toHaveLength(2);
  });

  it('is followed by one of the endpoint, also where another process has shared a newer one since', async () => {
    const [one, two] = await fleet(2);
    await textsOf(benches);
    await two?.tokens.invalidate();
    await one.tokens.invalidate();
    store.raw.clear();
    expect(await textOf(one)).toBe('token-2');
    await eventually(() => stored().length === 1);
    expect(await two?.tokens.getToken()).toMatchObject({ accessToken: 'token-3' });
  });
});

describe('a renewal under way when the host invalidates', () => {
  it.each<[string, Answer, string]>([
    ['token', granted(), 'token-1'],
    ['refusal', refused('invalid_client', 401), 'token_rejected'],
  ])('serves who waits for it, and does not share its %s', async (_what, late, served) => {
    const [one] = await fleet(1);
    let finish = (): void => undefined;
    one.answer = async (...request) => {
      await new Promise<void>((resolve) => (finish = resolve));
      return late(...request);
    };
    const waiting = textOf(one).catch(({ code }) => code);
    await eventually(() => one.posts.length === 1);
    one.answer = granted();
    await one.tokens.invalidate();
    store.raw.clear();
    expect(await textOf(one)).toBe('token-2');
    finish();
    expect(await waiting).toBe(served);
    await eventually(() => stored().length === 1);
    const [other] = await fleet(1, { tenants: [{ authUrl: one.url }] });
    other.clock.ahead = 1_000;
    expect(await textOf(other)).toBe('token-2');
  });
});

describe('a permanent refusal', () => {
  it('is of one process: another asks for itself, also with another secret', async () => {
    const answer: Answer = (form, count, response) =>
      form.get('client_secret') === 'the right secret'
        ? granted()(form, count, response)
        : refused('invalid_client', 401)(form, count, response);
    const [one, two] = await fleet(2, { answer, tenants: [{}, { clientSecret: 'the right secret' }] });
    await expect(textOf(one)).rejects.toMatchObject({ oauthError: 'invalid_client', attempts: 1 });
    await expect(textOf(one)).rejects.toMatchObject({ oauthError: 'invalid_client', attempts: 0 });
    expect(await two?.tokens.getToken()).toMatchObject({ accessToken: 'token-2' });
  });
});

describe('the hint that a process is asking', () => {
  /** A process that asks and never gets an answer, and others that need the same token. */
  async function fleetWithLost(
    count: number,
    http: HttpOptions = {},
  ): Promise<[TokenBench, ...TokenBench[]]> {
    const all = await fleet(count, { http });
    const [one, lost = one] = all;
    one.answer = () => new Promise(() => undefined);
    void textOf(lost).catch(() => undefined);
    await eventually(() => one.posts.length === 1);
    one.answer = slowly(granted());
    return all;
  }

  it('delays the others by a second where its process was killed, and fails no call', async () => {
    const [one, , ...others] = await fleetWithLost(5);
    const texts = textsOf(others);
    await pause(500);
    expect(one.posts).toHaveLength(1);
    expect(await texts).toEqual([expect.any(String), expect.any(String), expect.any(String)]);
    expect(one.posts.length).toBeLessThanOrEqual(4);
  });

  it('is waited for half of a deadline at most', async () => {
    const [, , ...others] = await fleetWithLost(4, { deadline: 1_000 });
    expect(await textsOf(others)).toHaveLength(2);
  });

  it('is none of another token: that of the last renewal delays no next one', async () => {
    const [one, two] = await fleet(2);
    await textsOf(benches);
    one.revoked.add('token-1');
    const began = performance.now();
    expect(await one.call()).toBe(200);
    expect(performance.now() - began).toBeLessThan(900);
    expect(await two?.call()).toBe(200);
  });

  it.each(['rubbish', ''])(
    'or a token that is rubbish, however long it lives, fails no call: %j',
    async (rubbish) => {
      const all = await fleet(3, { answer: slowly(granted()) });
      await textsOf(all);
      for (const entry of store.raw.values()) {
        entry.value = rubbish;
        entry.until = Number.POSITIVE_INFINITY;
      }
      all[0].revoked.add('token-1');
      const statuses = await Promise.all(all.map((bench) => bench.call()));
      expect(statuses).toEqual([200, 200, 200]);
      const late = await fleet(1, { tenants: [{ authUrl: all[0].url }] });
      expect(await textsOf(late)).toHaveLength(1);
    },
  );

  it('or a store that hangs delays a token by half of a deadline at most', async () => {
    const [one] = await fleet(1, { http: { deadline: 800 } });
    store.failure = 'hangs';
    expect(await textOf(one)).toBe('token-1');
  });
});
