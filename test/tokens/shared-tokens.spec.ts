import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { TenantOptions } from '../../lib/index.js';
import { MemoryStore } from '../store/memory-store.js';
import { granted, refused, SECRETS, TokenBench, type Answer } from './token-bench.js';
import { sendJson } from '../support/server.js';
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
  answer?: Answer;
  /** Options of the tenant in each process. */
  tenants?: readonly Partial<TenantOptions>[];
  secrets?: readonly (readonly string[])[];
}

/** Processes of one host: equal tenants, one store. The first one's server is the token endpoint and the REST API of all. */
async function fleet(
  count: number,
  { answer = granted(), tenants = [], secrets = [] }: FleetOptions = {},
): Promise<[TokenBench, ...TokenBench[]]> {
  const one = await TokenBench.start(answer, { acme: tenants[0] ?? {} }, {}, store, secrets[0]);
  benches.push(one);
  const others: TokenBench[] = [];
  for (let index = 1; index < count; index++) {
    const acme = { authUrl: one.url, baseUrl: one.url, ...tenants[index] };
    others.push(await TokenBench.start(answer, { acme }, {}, store, secrets[index]));
  }
  benches.push(...others);
  return [one, ...others];
}

/** Time passes, for the processes and for their store. What the jump of a clock does to a lease is no subject here. */
async function pass(ms: number): Promise<void> {
  const leases = [...store.raw].filter(([key]) => key.includes(':token-lease:'));
  await eventually(() => leases.every(([key]) => (store.raw.get(key)?.until ?? 0) <= Date.now()));
  benches.forEach(({ clock }) => (clock.ahead = ms));
  store.skip(ms);
}

const textOf = async (bench: TokenBench): Promise<string> => (await bench.tokens.getToken()).accessToken;
const textsOf = (all: readonly TokenBench[]): Promise<string[]> => Promise.all(all.map(textOf));
const times = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value);

const slowly =
  (answer: Answer): Answer =>
  async (form, count, response) => {
    await pause(80);
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

  it.each([
    ['early', HOUR - 29 * SECOND],
    ['late', HOUR + SECOND],
  ])('share the renewal, %s', async (_when, ahead) => {
    const all = await fleet(4, { answer: slowly(granted()) });
    await textsOf(all);
    await pass(ahead);
    await textsOf(all);
    await eventually(async () => (await textsOf(all)).every((text) => text === 'token-2'));
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

  it('share tokens during a rotation of secrets, whichever is the first one', async () => {
    const newer = 'another secret of the token tests, 32+ chars';
    const appended = [...SECRETS, newer];
    const promoted = [newer, ...SECRETS];
    const secrets = [promoted, appended, promoted, appended];
    const all = await fleet(4, { answer: slowly(granted()), secrets });
    expect(await textsOf(all)).toEqual(times(4, 'token-1'));
    await pass(HOUR + SECOND);
    expect(await textsOf(all.toReversed())).toEqual(times(4, 'token-2'));
    expect(all[0].posts).toHaveLength(2);
  });

  it('store neither a readable token nor a secret', async () => {
    const [one] = await fleet(1);
    await textOf(one);
    expect(store.raw.size).toBeGreaterThan(0);
    expect(store.dump).not.toMatch(/token-1|acme secret/);
  });

  it('store no expired token, and delay no process by it', async () => {
    const all = await fleet(3, { answer: granted({ expires_in: 0 }) });
    const began = performance.now();
    expect((await textsOf(all)).toSorted()).toEqual(['token-1', 'token-2', 'token-3']);
    expect(performance.now() - began).toBeLessThan(950);
    expect([...store.raw.keys()].filter((key) => key.includes(':token:'))).toEqual([]);
  });

  it('have their own tokens where the store fails', async () => {
    store.failure = 'rejects';
    const all = await fleet(2);
    expect((await textsOf(all)).toSorted()).toEqual(['token-1', 'token-2']);
  });

  it('fail each by its own request where the token endpoint is down', async () => {
    const all = await fleet(3, { answer: (_form, _count, response) => sendJson(response, {}, 503) });
    const failures = await Promise.allSettled(all.map(textOf));
    expect(failures).toEqual(
      times(3, { status: 'rejected', reason: expect.objectContaining({ code: 'token_unavailable' }) }),
    );
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

  it('is replaced by one that another process requested because of the same token, whatever its clock says', async () => {
    const [one, two] = await fleet(2);
    await textsOf(benches);
    one.revoked.add('token-1');
    // The clock of the first process is behind: its token seems to be older than the refused request.
    one.clock.ahead = -60_000;
    expect([await one.call(), await two?.call()]).toEqual([200, 200]);
    expect(one.posts).toHaveLength(2);
  });

  it('is not replaced by another one that may be revoked as well', async () => {
    // Both asked while the store was down; the store then got that of the second process.
    store.failure = 'rejects';
    const [one, two] = await fleet(2);
    await textOf(one);
    // It has tried to share its token: two looks and the lease came before.
    await eventually(() => store.calls === 4);
    store.failure = 'none';
    await two?.tokens.getToken();
    one.revoked.add('token-1').add('token-2');
    expect(await one.call()).toBe(200);
    expect(one.received).toEqual(['token-1', 'token-3']);
    expect(await two?.call()).toBe(200);
    expect(one.posts.length).toBeLessThanOrEqual(4);
  });

  it('about to end is replaced by the one that another process renewed it with', async () => {
    const [one, two] = await fleet(2);
    // It renews the token 30 s before its end, the other process 60 s.
    one.clock.chance = 1;
    await textsOf(benches);
    await pass(HOUR - 50 * SECOND);
    await eventually(async () => two !== undefined && (await textOf(two)) === 'token-2');
    // The service rounds the end of a token.
    one.revoked.add('token-1');
    expect(await one.call()).toBe(200);
    expect(one.received).toEqual(['token-1', 'token-2']);
    expect(one.posts).toHaveLength(2);
  });

  it('is dropped from the store, so that no other process takes it', async () => {
    const [one, two] = await fleet(2);
    await textOf(one);
    // The callers do not wait for the store.
    await eventually(() => [...store.raw.keys()].some((key) => key.includes(':token:')));
    one.answer = (_form, _count, response) => sendJson(response, {}, 503);
    one.revoked.add('token-1');
    expect(await one.call()).toBe('token_unavailable');
    one.answer = granted();
    expect(await two?.call()).toBe(200);
    expect(one.received.filter((text) => text === 'token-1')).toHaveLength(1);
  });

  it('that came from the store is replaced by the endpoint itself, although the store has another one', async () => {
    const [one, two] = await fleet(2);
    await textsOf(benches);
    // Its clock is ahead: its tokens seem to be newer than every refused request.
    const ahead = two ?? one;
    ahead.clock.ahead = 60_000;
    for (const [index, text] of ['token-1', 'token-2'].entries()) {
      await ahead.tokens.invalidate();
      await textOf(ahead);
      await one.refuse(text, index === 1);
      expect(await textOf(one)).toBe(['token-2', 'token-4'][index]);
    }
  });

  it('is replaced by the endpoint itself where a stored token is refused as well; that request is the last', async () => {
    const [one, two] = await fleet(2);
    await textsOf(benches);
    // The second process has a clock ahead: its token seems to be newer than the refused request.
    if (two !== undefined) {
      two.clock.ahead = 60_000;
      await two.tokens.invalidate();
      await textOf(two);
    }
    one.revoked.add('token-1').add('token-2');
    expect(await one.call()).toBe(200);
    expect(one.received).toEqual(['token-1', 'token-2', 'token-3']);
    one.received.length = 0;
    for (let count = 3; count < 20; count++) {
      one.revoked.add(`token-${count}`);
    }
    expect(await one.call()).toBe('access_denied');
    expect(one.received.length).toBeLessThanOrEqual(3);
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

  it('is not replaced by one that was requested before, though in place of the same refused one', async () => {
    const [one] = await fleet(1);
    await one.refuse(await textOf(one));
    one.answer = slowly(granted());
    const before = textOf(one);
    await eventually(() => one.posts.length === 2);
    await one.tokens.invalidate();
    expect(await Promise.all([before, textOf(one)])).toEqual(['token-2', 'token-3']);
    expect(await textOf(one)).toBe('token-3');
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
    const [other] = await fleet(1, { tenants: [{ authUrl: one.url }] });
    other.clock.ahead = 1_000;
    expect(await textOf(other)).toBe('token-2');
  });
});

describe('a permanent refusal', () => {
  const refusedSlowly = slowly(refused('invalid_client', 401, 'wrong'));
  const failuresOf = async (all: readonly TokenBench[]): Promise<unknown[]> =>
    (await Promise.allSettled(all.map(textOf))).map((result) =>
      result.status === 'rejected' ? result.reason : result.value,
    );

  it('is shared for its 30 s', async () => {
    const all = await fleet(4, { answer: refusedSlowly });
    const failures = await failuresOf(all);
    const refusal = { code: 'token_rejected', oauthError: 'invalid_client', status: 401, tenant: 'acme' };
    expect(failures).toEqual(
      times(4, expect.objectContaining({ ...refusal, oauthErrorDescription: 'wrong' })),
    );
    expect(failures.map((failure) => (failure as { attempts: number }).attempts).toSorted()).toEqual([
      0, 0, 0, 1,
    ]);
    const [one, ...others] = all;
    const late = await fleet(1, { tenants: [{ authUrl: one.url }] });
    late[0].clock.ahead = 20 * SECOND;
    expect(await failuresOf(late)).toMatchObject([{ oauthError: 'invalid_client', attempts: 0 }]);
    expect(late[0].posts).toHaveLength(0);
    expect(one.posts).toHaveLength(1);
    one.answer = slowly(granted());
    // By a process that got it from the store, it is not remembered for another 30 s.
    await pass(34 * SECOND);
    expect(await textsOf([...others, ...late])).toEqual(times(4, 'token-2'));
    expect(one.posts).toHaveLength(2);
  });

  it('is shared beside a token that is still good, and does not replace it', async () => {
    const [one, ...others] = await fleet(3);
    await textOf(one);
    one.answer = refused('invalid_client', 401);
    await pass(HOUR - 50 * SECOND);
    expect(await textOf(one)).toBe('token-1');
    await eventually(() => one.messages.some(({ outcome }) => outcome === 'failed'));
    for (let call = 0; call < 3; call++) {
      expect(await textsOf(others)).toEqual(times(2, 'token-1'));
      await pause(20);
    }
    expect(one.posts).toHaveLength(2);
  });

  it('does not answer for the endpoint once it has lapsed beside a token', async () => {
    const [one, ...others] = await fleet(2);
    await textOf(one);
    one.answer = refused('invalid_client', 401);
    await pass(HOUR - 50 * SECOND);
    expect(await textOf(one)).toBe('token-1');
    await eventually(() => one.messages.some(({ outcome }) => outcome === 'failed'));
    one.answer = granted();
    await pass(0);
    benches.forEach(({ clock }) => (clock.ahead = HOUR - 5 * SECOND));
    expect(await textsOf(others)).toEqual(['token-3']);
  });

  it('does not hold for another secret, nor after invalidate', async () => {
    const answer: Answer = (form, count, response) =>
      form.get('client_secret') === 'the right secret'
        ? granted()(form, count, response)
        : refused('invalid_client', 401)(form, count, response);
    const [one, two, three] = await fleet(3, {
      answer,
      tenants: [{}, { clientSecret: 'the right secret' }, {}],
    });
    await failuresOf([one]);
    expect(await two?.tokens.getToken()).toMatchObject({ accessToken: 'token-2' });
    await failuresOf([three ?? one]);
    expect(one.posts).toHaveLength(2);
    one.answer = granted();
    await three?.tokens.invalidate();
    expect(await three?.tokens.getToken()).toMatchObject({ accessToken: 'token-3' });
  });

  it('lets a secret function answer a newer one in every process', async () => {
    const answer: Answer = (form, count, response) =>
      form.get('client_secret') === 'new'
        ? granted()(form, count, response)
        : refusedSlowly(form, count, response);
    const rotated = (): Partial<TenantOptions> => {
      const values = ['old', 'new'];
      return { clientSecret: () => values.shift() ?? 'new' };
    };
    const all = await fleet(3, { answer, tenants: [rotated(), rotated(), rotated()] });
    expect(await textsOf(all)).toEqual(times(3, 'token-2'));
    expect(all[0].posts.map((form) => form.get('client_secret'))).toEqual(['old', 'new']);
  });
});
