import { beforeEach, describe, expect, it } from '@jest/globals';
import type { HttpOptions, TenantOptions } from '../../lib/index.js';
import { MemoryStore } from '../store/memory-store.js';
import {
  granted,
  heldBack,
  refused,
  slowly,
  startBench,
  type Answer,
  type TokenBench,
} from './token-bench.js';
import { eventually, pause } from '../support/wait.js';

const SECOND = 1_000;
const HOUR = 3_600 * SECOND;
let store: MemoryStore;
beforeEach(() => {
  store = new MemoryStore();
});

interface FleetOptions {
  http?: HttpOptions;
  answer?: Answer;
  /** Options of the tenant in each process. */
  tenants?: readonly Partial<TenantOptions>[];
  /** `secrets` of each process. */
  secrets?: readonly string[][];
}

/** Processes of one host: equal tenants, one store. The first one's server is the token endpoint and the REST API of all. */
async function fleet(count: number, { http, answer, tenants = [], secrets = [] }: FleetOptions = {}) {
  const start = (index: number, urls = {}) =>
    startBench(answer, {
      tenants: { acme: { ...urls, ...tenants[index] } },
      http,
      store,
      ...(secrets[index] && { secrets: secrets[index] }),
    });
  const one = await start(0);
  const urls = { authUrl: one.url, baseUrl: one.url };
  const others = Array.from({ length: count - 1 }, (_, index) => start(index + 1, urls));
  const all = [one, ...(await Promise.all(others))];
  return { one, two: all[1] ?? one, all };
}

/** Time passes, for the processes and for their store, once it has the token. */
async function pass(ms: number, all: readonly TokenBench[]): Promise<void> {
  await eventually(() => stored().length === 1);
  all.forEach(({ clock }) => (clock.ahead = ms));
  store.skip(ms);
}

/** The tokens in the store. Callers do not wait until theirs is there. */
const stored = () => [...store.raw.keys()].filter((key) => key.includes(':token:'));
const textsOf = (all: readonly TokenBench[]) => Promise.all(all.map((bench) => bench.text()));
const times = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value);

describe('processes that share a store', () => {
  it('share a token with its remaining lifetime, in no readable form', async () => {
    const { one, two, all } = await fleet(2);
    const first = await one.tokens.getToken();
    await pass(1_000_000, all);
    const second = await two.tokens.getToken();
    expect(second).toMatchObject({ accessToken: 'token-1', scope: 'idp_api', tokenType: 'Bearer' });
    expect(Math.abs(second.expiresAt.getTime() - first.expiresAt.getTime())).toBeLessThan(5_000);
    expect(one.posts).toHaveLength(1);
    expect(two.outcomes).toContain('shared');
    expect(store.dump).not.toMatch(/token-1|acme secret/);
  });

  it('send one token request where all of them start at the same time, and one to renew it', async () => {
    const { one, all } = await fleet(8, { answer: slowly() });
    expect(await textsOf(all)).toEqual(times(8, 'token-1'));
    expect(one.posts).toHaveLength(1);
    await pass(HOUR + SECOND, all);
    expect(await textsOf(all)).toEqual(times(8, 'token-2'));
    expect(one.posts).toHaveLength(2);
  });

  it('use a token in its early window, and renew it once', async () => {
    const { one, all } = await fleet(2, { answer: slowly() });
    await one.text();
    await pass(HOUR - 50 * SECOND, all);
    expect(await textsOf(all)).toEqual(['token-1', 'token-1']);
    await eventually(async () => (await textsOf(all)).every((text) => text === 'token-2'));
    expect(one.posts).toHaveLength(2);
  });

  it('share no token where the secret, the client or the scope differs', async () => {
    const clientSecret = () => 'another secret';
    const tenants = [{}, { clientSecret }, { clientId: 'other' }, { scope: 'x' }];
    const { one, all } = await fleet(4, { tenants });
    expect(new Set(await textsOf(all)).size).toBe(4);
    expect(one.posts).toHaveLength(4);
  });

  const [OLD, NEW] = [
    'an old secret of the fleet, 32 characters',
    'a new secret of the fleet, 32 characters.',
  ];
  it('name tokens and hints by nothing that whoever lists the keys could guess without a secret', async () => {
    const { one, all } = await fleet(2, { secrets: [[OLD], [NEW]] });
    await textsOf(all);
    // Equal tenants, and a token that is replaced by an equal one.
    await eventually(() => store.raw.size === 4);
    expect([one.posts.length, stored().length]).toEqual([2, 2]);
    const ofOld = [...store.raw.keys()];
    store.raw.clear();
    const { all: again } = await fleet(1, { secrets: [[OLD]], tenants: [{ authUrl: one.url }] });
    await textsOf(again);
    await eventually(() => store.raw.size === 2);
    expect(ofOld).toEqual(expect.arrayContaining([...store.raw.keys()]));
  });

  it.each([
    ['in another order', [OLD, NEW], [NEW, OLD], 1],
    ['one of them', [OLD], [OLD, NEW], 2],
    ['none in common', [OLD], [NEW], 2],
  ])('have a token each time while secrets are rotated (%s)', async (_, before, after, most) => {
    const { one, all } = await fleet(2, { answer: slowly(), secrets: [before, after] });
    expect(await textsOf(all)).toHaveLength(2);
    expect(one.posts.length).toBeLessThanOrEqual(most);
    await eventually(() => stored().length > 0);
    all.forEach(({ clock }) => (clock.ahead = HOUR + SECOND));
    store.skip(HOUR + SECOND);
    expect(await textsOf(all)).toHaveLength(2);
    expect(one.posts.length).toBeLessThanOrEqual(2 * most);
  });

  it('store no expired token', async () => {
    const { all } = await fleet(2, { answer: granted({ expires_in: 0 }) });
    expect((await textsOf(all)).toSorted()).toEqual(['token-1', 'token-2']);
    expect(stored()).toEqual([]);
  });
});

/** Two processes: the first got its token while the store was down, which then got that of the second. */
async function oneBesideStore(ofSecond = granted()) {
  store.failure = 'rejects';
  const { one, two } = await fleet(2);
  await one.text();
  store.failure = 'none';
  one.answer = ofSecond;
  await two.text();
  one.answer = granted();
  return { one, two };
}

describe('a token that the service refused', () => {
  it('is replaced once for all processes, and no call fails', async () => {
    const { one, all } = await fleet(4, { answer: slowly() });
    await textsOf(all);
    await pass(10 * SECOND, all);
    one.revoked.add('token-1');
    const calls = all.flatMap((bench) => times(5, bench)).map((bench) => bench.call());
    expect(await Promise.all(calls)).toEqual(times(20, 'a page'));
    expect(one.posts).toHaveLength(2);
  });

  it('is replaced by one of the endpoint where that in the store may be revoked as well', async () => {
    const { one, two } = await oneBesideStore();
    one.clock.ahead = 10 * SECOND;
    two.clock.ahead = 10 * SECOND;
    one.revoked.add('token-1').add('token-2');
    expect(await one.call()).toBe('a page');
    expect(one.received).toEqual(['token-1', 'token-3']);
    expect(await two.call()).toBe('a page');
  });
});

describe('a token in the store', () => {
  it('counts only if it expires later than the one held', async () => {
    const { one } = await oneBesideStore(granted({ expires_in: 3_590 }));
    await eventually(() => stored().length === 1);
    // The early window of the first process: the token in the store ends ten seconds earlier.
    one.clock.ahead = HOUR - 29 * SECOND;
    const seen = new Set<string>();
    await eventually(async () => seen.add(await one.text()).has('token-3'));
    expect([...seen]).toEqual(['token-1', 'token-3']);
  });

  it('is not taken after invalidate, by a process that holds none or where another one has shared a newer one', async () => {
    const { one, two } = await fleet(2);
    await one.text();
    await two.tokens.invalidate();
    expect(await two.text()).toBe('token-2');
    await two.tokens.invalidate();
    await one.tokens.invalidate();
    store.raw.clear();
    expect(await one.text()).toBe('token-3');
    await eventually(() => stored().length === 1);
    expect(await two.text()).toBe('token-4');
  });
});

describe('a renewal under way when the host invalidates', () => {
  it.each<[string, Answer, string]>([
    ['token', granted(), 'token-1'],
    ['refusal', refused('invalid_client', 401), 'token_rejected'],
  ])('serves who waits for it, and does not share its %s', async (_what, late, served) => {
    const { answer, release } = heldBack(late);
    const { one } = await fleet(1, { answer });
    const waiting = one.text().catch(({ code }) => code);
    await eventually(() => release.length === 1);
    one.answer = granted();
    await one.tokens.invalidate();
    store.raw.clear();
    expect(await one.text()).toBe('token-2');
    release[0]?.();
    expect(await waiting).toBe(served);
    await eventually(() => stored().length === 1);
    const { one: other } = await fleet(1, { tenants: [{ authUrl: one.url }] });
    other.clock.ahead = 1_000;
    expect(await other.text()).toBe('token-2');
  });
});

describe('a permanent refusal', () => {
  it('is of one process: another asks for itself, also with another secret', async () => {
    const answer: Answer = (form, ...rest) => {
      const isRight = form.get('client_secret') === 'the right secret';
      return (isRight ? granted() : refused('invalid_client', 401))(form, ...rest);
    };
    const { one, two } = await fleet(2, { answer, tenants: [{}, { clientSecret: 'the right secret' }] });
    for (const attempts of [1, 0]) {
      await expect(one.text()).rejects.toMatchObject({ oauthError: 'invalid_client', attempts });
    }
    expect(await two.text()).toBe('token-2');
  });
});

describe('the hint that a process is asking', () => {
  it('delays the others by a second where its process was killed, and fails no call', async () => {
    const { one, two, all } = await fleet(5, { answer: () => new Promise(() => undefined) });
    void two.text().catch(() => undefined);
    await eventually(() => one.posts.length === 1);
    one.answer = slowly();
    const texts = textsOf(all.slice(2));
    await pause(200);
    expect(one.posts).toHaveLength(1);
    expect(await texts).toHaveLength(3);
    expect(one.posts.length).toBeLessThanOrEqual(4);
  });

  it('is not set, and nobody is waited for, while the endpoint rests for this process', async () => {
    const { one } = await fleet(1, { answer: refused('invalid_client') });
    await expect(one.text()).rejects.toMatchObject({ code: 'token_rejected' });
    const startedAt = performance.now();
    for (const _ of [1, 2, 3]) {
      await expect(one.text()).rejects.toMatchObject({ code: 'token_rejected', attempts: 0 });
    }
    expect(performance.now() - startedAt).toBeLessThan(500);
  });

  it('is not waited for by the process that has set it', async () => {
    const { one } = await fleet(1, { answer: refused('temporarily_unavailable') });
    await expect(one.text()).rejects.toMatchObject({ code: 'token_unavailable' });
    one.clock.ahead = 1_500;
    one.answer = slowly();
    const startedAt = performance.now();
    expect(await one.text()).toMatch(/^token-/);
    expect(performance.now() - startedAt).toBeLessThan(900);
  });

  it('is none of another token: that of the last renewal delays no next one', async () => {
    const { one, two, all } = await fleet(2);
    await textsOf(all);
    await pass(10 * SECOND, all);
    one.revoked.add('token-1');
    store.calls = 0;
    expect(await one.call()).toBe('a page');
    // It reads the token, sets its own hint, and writes the next token. A process that waits reads again.
    expect(store.calls).toBeLessThanOrEqual(3);
    expect(await two.call()).toBe('a page');
  });

  it.each(['rubbish', ''])(
    'or a token that is rubbish, however long it lives, fails no call: %j',
    async (rubbish) => {
      const { one, all } = await fleet(3, { answer: slowly() });
      await textsOf(all);
      await pass(10 * SECOND, all);
      for (const entry of store.raw.values()) {
        Object.assign(entry, { value: rubbish, until: Number.POSITIVE_INFINITY });
      }
      one.revoked.add('token-1');
      expect(await Promise.all(all.map((bench) => bench.call()))).toEqual(times(3, 'a page'));
      const late = await fleet(1, { tenants: [{ authUrl: one.url }] });
      expect(await textsOf(late.all)).toHaveLength(1);
    },
  );

  it('or a store that hangs delays a token by half of a deadline at most', async () => {
    const { one } = await fleet(1, { http: { deadline: 1_000 } });
    store.failure = 'hangs';
    expect(await one.text()).toBe('token-1');
  });
});
