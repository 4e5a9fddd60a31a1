import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import type { SharedStore } from '../../lib/index.js';
import { checkOptions } from '../../lib/options/check-options.js';
import { DeniedIdentities } from '../../lib/session/denied-identities.service.js';
import { ReplayCache } from '../../lib/store/replay-cache.service.js';
import { Sealer } from '../../lib/store/sealer.service.js';
import { SharedValues } from '../../lib/store/shared-values.service.js';
import { StoppedClock } from '../support/clock.js';
import { MemoryStore } from './memory-store.js';

const HOUR = 3_600_000;
/** {@link Clock.now} of each process at first. */
const START = 10_000;
const ISSUER = 'https://login.example';

/** A store that reads many keys at once. */
class BatchStore extends MemoryStore {
  readonly reads: (readonly string[])[] = [];
  /** Changes what is answered. */
  spoil: (values: (string | undefined)[]) => unknown = (values) => values;

  async getMany(keys: readonly string[]): Promise<(string | undefined)[]> {
    this.reads.push(keys);
    const values = await Promise.all(keys.map((key) => this.get(key)));
    return this.spoil(values) as (string | undefined)[];
  }
}

interface Process {
  replays: ReplayCache;
  denied: DeniedIdentities;
  clock: StoppedClock;
}

/** The logout check of one process. */
function startProcess(store: SharedStore, logoutCheck?: { ttl: number }): Process {
  const clock = new StoppedClock();
  clock.time = START;
  const options = checkOptions({
    tenant: {
      tenantId: 'acme',
      baseUrl: 'https://api.example',
      authUrl: ISSUER,
      clientId: 'acme-api',
      clientSecret: 'secret',
    },
    secrets: ['the secret of the tests of logouts, long'],
    store,
    ...(logoutCheck && { logoutCheck }),
  });
  const replays = new ReplayCache(new SharedValues(options, new Sealer(options, clock), clock), clock);
  return { replays, clock, denied: new DeniedIdentities(options, replays, clock) };
}

const login = (id: string, subject = 'sam') => ({ id, issuer: ISSUER, subject, loggedInAt: 1 });
const logOut = ({ replays }: Process, id: string): Promise<boolean> =>
  replays.claim('denied-identity', id, HOUR);

beforeEach(() => {
  jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
});
afterEach(() => void jest.restoreAllMocks());

describe('the logout check of requests in one turn', () => {
  it('is one read of a store with getMany, which names each mark once', async () => {
    const store = new BatchStore();
    const { denied } = startProcess(store);
    await logOut(startProcess(store), 'b');
    const asked = ['a', 'b', 'a', 'c', 'b', 'a'].map((id) => denied.has(login(id)));
    expect(await Promise.all(asked)).toEqual([false, true, false, false, true, false]);
    expect(store.reads).toHaveLength(1);
    // Three identities, and two marks of their user.
    expect(store.reads[0]).toHaveLength(5);
    expect(new Set(store.reads[0]).size).toBe(5);
  });

  it('reads each mark once from a store without getMany', async () => {
    const store = new MemoryStore();
    const { denied } = startProcess(store);
    await Promise.all(Array.from({ length: 20 }, () => denied.has(login('a'))));
    expect(store.calls).toBe(3);
  });

  it('shares no read with a later turn', async () => {
    const store = new BatchStore();
    const [one, other] = [startProcess(store, { ttl: 0 }), startProcess(store)];
    const before = one.denied.has(login('a'));
    await new Promise(setImmediate);
    const after = logOut(other, 'a').then(() => one.denied.has(login('a')));
    expect([await before, await after]).toEqual([false, true]);
    expect(store.reads).toHaveLength(2);
  });
});

describe('logoutCheck.ttl', () => {
  it('remembers for a second by default that nobody logged out, and answers no promise meanwhile', async () => {
    const store = new MemoryStore();
    const [one, other] = [startProcess(store), startProcess(store)];
    expect(await one.denied.has(login('a'))).toBe(false);
    await logOut(other, 'a');
    const { calls } = store;
    one.clock.time = START + 999;
    expect(one.denied.has(login('a'))).toBe(false);
    expect(store.calls).toBe(calls);
    one.clock.time = START + 1_001;
    expect(await one.denied.has(login('a'))).toBe(true);
  });

  it.each([5_000, 0])('may be %i', async (ttl) => {
    const store = new MemoryStore();
    const [one, other] = [startProcess(store, { ttl }), startProcess(store)];
    expect(await one.denied.has(login('a'))).toBe(false);
    await logOut(other, 'a');
    one.clock.time = START + Math.max(0, ttl - 1);
    expect(await one.denied.has(login('a'))).toBe(ttl === 0);
    one.clock.time = START + ttl + 1;
    expect(await one.denied.has(login('a'))).toBe(true);
  });

  it('holds for one login: another of the same user, or with the same id, is asked for', async () => {
    const store = new MemoryStore();
    const { denied } = startProcess(store);
    expect(await denied.has(login('a'))).toBe(false);
    expect(denied.has(login('a'))).toBe(false);
    for (const another of [
      login('b'),
      login('a', 'olga'),
      { ...login('a'), sid: 's' },
      { ...login('a'), loggedInAt: 0 },
    ]) {
      const answer = denied.has(another);
      expect(answer).toBeInstanceOf(Promise);
      expect(await answer).toBe(false);
    }
  });

  it('does not delay a logout at the process itself, by user or by provider', async () => {
    const process = startProcess(new MemoryStore());
    const [byUser, byProvider] = [Object.freeze(login('a')), Object.freeze(login('b', 'olga'))];
    expect(await Promise.all([byUser, byProvider].map((one) => process.denied.has(one)))).toEqual([
      false,
      false,
    ]);
    await logOut(process, 'a');
    expect(process.denied.has(byUser)).toBe(true);
    expect(process.denied.has(byProvider)).toBe(false);
    await process.denied.deny({ issuer: ISSUER, subject: 'olga', at: 2, tokenId: 't', expiresAt: HOUR });
    expect(process.denied.has(byProvider)).toBe(true);
  });

  it.each(['throws', 'rejects'] as const)(
    'does not hold for a failure of the store: it %s',
    async (failure) => {
      for (const store of [new MemoryStore(), new BatchStore()]) {
        const [one, other] = [startProcess(store), startProcess(store)];
        await logOut(other, 'a');
        store.failure = failure;
        expect(await one.denied.has(login('a'))).toBe(false);
        store.failure = 'none';
        expect(await one.denied.has(login('a'))).toBe(true);
      }
    },
  );

  it.each<[what: string, spoil: BatchStore['spoil']]>([
    ['fewer values than keys', (values) => values.slice(1)],
    ['no list', () => undefined],
    ['an object', (values) => Object.fromEntries(values.entries())],
  ])('does not hold where getMany answers %s', async (_what, spoil) => {
    const store = new BatchStore();
    const [one, other] = [startProcess(store), startProcess(store)];
    await logOut(other, 'a');
    store.spoil = spoil;
    expect(await one.denied.has(login('a'))).toBe(false);
    store.spoil = (values) => values;
    expect(await one.denied.has(login('a'))).toBe(true);
  });
});
