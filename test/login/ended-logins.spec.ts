import { createHash } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { beforeEach, describe, expect, it, jest } from '@jest/globals';
import type { LoginOptions, SharedStore, StoreMessage } from '../../lib/index.js';
import { checkOptions } from '../../lib/config/check-options.js';
import { EndedLogins } from '../../lib/login/ended-logins.service.js';
import { StoppedClock } from '../support/clock.js';
import { loggedLines } from '../support/logged-lines.js';
import { messagesOn } from '../support/messages.js';
import { KEYS } from '../support/provider-keys.js';
import { registryOf, sharedValuesOf } from '../support/registry.js';
import { tenantAt } from '../support/tenant-at.js';
import { MemoryStore } from '../store/memory-store.js';

const HOUR = 3_600_000;
const MINUTE = 60_000;
/** {@link Clock.now} of each process at first. */
const START = 10_000;
const SECRETS = ['the secret of the tests of ended logins, long'];

const logged = loggedLines();
let store: MemoryStore;
beforeEach(() => {
  store = new MemoryStore();
});

/** A login of sam, whose ID token was issued at 0, but for these members. */
const login = (
  changed: { id?: string; tenant?: string; subject?: string; loggedInAt?: number; sid?: string } = {},
) => ({
  id: 'a',
  tenant: 'acme',
  subject: 'sam',
  registration: 'r',
  loggedInAt: 0,
  ...changed,
});

/** The ended logins of one process of a host. */
function startProcess(
  shared: SharedStore | 'none' = store,
  logoutCheck: { ttl?: number; provider?: boolean } = { ttl: 0 },
  secrets = SECRETS,
) {
  const clock = new StoppedClock();
  clock.time = START;
  const options = checkOptions({
    tenant: tenantAt(),
    secrets,
    logoutCheck: { provider: true, ...logoutCheck },
    cookies: { identityTtl: HOUR },
    ...(shared === 'none' ? {} : { store: shared }),
  });
  const values = sharedValuesOf(options, clock);
  const ended = new EndedLogins(options, values, clock);
  return {
    ended,
    values,
    clock,
    has: (changed: Parameters<typeof login>[0] = {}, registration = 'r') =>
      ended.has({ ...login(changed), registration }, registration),
    /** The provider says that sam has logged out. */
    endAtProvider: (logout: { subject?: string; sid?: string; at: number }) =>
      ended.logouts.record({ registration: 'r', ...logout }),
    /** Every login of sam at this tenant, by code. */
    endUser: (tenant: string, at: number) =>
      ended.logouts.record({ registration: 'r', tenant, subject: 'sam', at }),
    /** The same person has logged in anew. */
    endSoon: (id = 'a') => ended.ends.endAll([{ id, endsAt: Date.now() + HOUR, person: 'sam' }], 'sam'),
  };
}

describe('a login that ended', () => {
  it('is a key alone in the store; a logout at the provider, and the end of a user by code, have their time', async () => {
    const { ended, endAtProvider, endUser } = startProcess();
    await ended.ends.end('an id');
    expect(await endAtProvider({ subject: 'sam', at: 1_700_000_000_000 })).toBe(true);
    expect(await endUser('acme', 1_700_000_000_001)).toBe(true);
    const entries = [...store.raw];
    const keyOf = (name: string): string =>
      `nestjs-exhibitor:ended-login:${createHash('sha256').update(name).digest('base64url')}`;
    // Processes of every version look for these.
    expect(entries.map(([key, { value }]) => [key, value])).toEqual([
      [keyOf('an id'), '1'],
      [keyOf('["user","r","sam"]'), '1700000000000'],
      [keyOf('["user","r","sam","acme"]'), '1700000000001'],
    ]);
    for (const [, { until }] of entries) {
      // Two hours more, for clocks that are set back.
      expect(Math.abs(until - Date.now() - 3 * HOUR)).toBeLessThan(10_000);
    }
    // Presence counts.
    store.raw.forEach((entry) => (entry.value = 'rubbish'));
    expect([await startProcess().has({ id: 'an id' }), await startProcess().has()]).toEqual([true, false]);
  });

  it.each([
    ['the end of the login, plus two hours', HOUR / 2, 2.5 * HOUR],
    ['a later end, of another service', 24 * HOUR, 26 * HOUR],
    ['that of the longest login, 400 days', 9_600 * HOUR, 9_602 * HOUR],
  ])('is remembered until %s', async (_what, lifetime, kept) => {
    const { clock, ended, has } = startProcess('none');
    await ended.ends.endAll([{ id: 'a', endsAt: Date.now() + lifetime, person: 'sam' }]);
    clock.time += kept - 10_000;
    expect(has()).toBe(true);
    clock.time += 20_000;
    expect(has()).toBe(false);
  });

  it('by the time of a logout began no later; the later one of two logouts stays, in whatever order', async () => {
    const [one, other] = [startProcess(), startProcess()];
    await one.endAtProvider({ subject: 'sam', at: 200 });
    await other.endAtProvider({ subject: 'sam', at: 100 });
    const alone = startProcess('none');
    await alone.endAtProvider({ subject: 'sam', at: 200 });
    await alone.endAtProvider({ subject: 'sam', at: 100 });
    for (const { has } of [one, other, startProcess(), alone]) {
      expect(await has({ loggedInAt: 200 })).toBe(true);
      expect(await has({ loggedInAt: 201 })).toBe(false);
      expect(await has({ loggedInAt: 200, subject: 'olga' })).toBe(false);
      expect(await has({ loggedInAt: 200 }, 'another')).toBe(false);
    }
  });

  it('by code is one at that tenant; at the provider one at every tenant of the registration', async () => {
    for (const [one, other] of [
      [startProcess(), startProcess()],
      Array(2).fill(startProcess('none')),
    ] as ReturnType<typeof startProcess>[][]) {
      await one?.endUser('acme', 200);
      const atAcme = { sid: 's', loggedInAt: 200 };
      const [ended, later] = [await other?.has(atAcme), await other?.has({ ...atAcme, loggedInAt: 201 })];
      const elsewhere = await other?.has({ ...atAcme, tenant: 'globex' });
      expect([ended, later, elsewhere, await other?.has(atAcme, 'another')]).toEqual([
        true,
        false,
        false,
        false,
      ]);
      await one?.endAtProvider({ subject: 'sam', at: 300 });
      expect(await other?.has({ id: 'b', tenant: 'globex', loggedInAt: 300 })).toBe(true);
    }
  });

  it('is remembered in the process without a store, the last 100,000', async () => {
    const [one, other] = [startProcess('none'), startProcess('none')];
    await one.ended.ends.end('a');
    expect([one.has(), other.has()]).toEqual([true, false]);
    for (let count = 0; count <= 100_000; count++) {
      await one.ended.ends.end(`id ${count}`);
    }
    expect([one.has({ id: 'id 0' }), one.has({ id: 'id 1' })]).toEqual([false, true]);
  });

  it('is looked for under one key of the store without logoutCheck.provider, on nestjs-exhibitor:store', async () => {
    const { has, endAtProvider } = startProcess(store, { ttl: 0, provider: false });
    const other = startProcess();
    const messages = await messagesOn<StoreMessage>('nestjs-exhibitor:store', async () => {
      await has({ sid: 's' });
      expect(store.calls).toBe(1);
      await other.ended.ends.end('a');
      await has();
      await endAtProvider({ subject: 'sam', at: 200 });
      expect(await has({ id: 'b', loggedInAt: 100 })).toBe(false);
      store.failure = 'rejects';
      await has({ id: 'c' });
    });
    const outcomes = ['miss', 'hit', 'miss', 'failed'];
    expect(messages).toEqual(outcomes.map((outcome) => ({ kind: 'ended-login', outcome })));
  });
});

describe('a login that ends soon', () => {
  /** Moves the date of a process. */
  const pass = ({ clock }: ReturnType<typeof startProcess>, ms: number): void => {
    jest.spyOn(clock, 'epochMs').mockImplementation(() => Date.now() + ms);
  };

  it.each(['with', 'without'])('counts for a minute, in all processes %s a store', async (which) => {
    const one = startProcess(which === 'with' ? store : 'none');
    const all = which === 'with' ? [one, startProcess(), startProcess(store, { ttl: HOUR })] : [one];
    await one.endSoon();
    for (const each of all) {
      for (const [ms, hasEnded] of [
        [0, false],
        [MINUTE - 5_000, false],
        [MINUTE + 1_000, true],
        // The date was set back.
        [-HOUR, true],
      ] as const) {
        pass(each, ms);
        expect([ms, await each.has()]).toEqual([ms, hasEnded]);
        // Its cookie would replace that of the new login.
        expect(each.ended.ends.isKnown('a')).toBe(true);
      }
    }
    const values = [...store.raw.values()].map(({ value }) => Number(value) - Date.now());
    expect(values).toEqual(which === 'with' ? [expect.closeTo(MINUTE, -4)] : []);
  });

  it('stays ended while its cookie could count, asked for within that minute, and without the store later', async () => {
    const { has, endSoon, clock } = startProcess();
    await endSoon();
    expect(await has()).toBe(false);
    // Longer than the margin of two hours; the cookie lives for ten.
    clock.time += 2.5 * HOUR;
    jest.spyOn(clock, 'epochMs').mockImplementation(() => Date.now() + 2.5 * HOUR);
    store.failure = 'rejects';
    expect(await has()).toBe(true);
  });

  it('ends at once by a logout, before or after it, in all processes', async () => {
    for (const which of [store, 'none'] as const) {
      const one = startProcess(which);
      const other = which === 'none' ? one : startProcess();
      await one.ended.ends.end('a');
      await other.endSoon('a');
      await one.endSoon('b');
      await other.ended.ends.end('b');
      await other.endSoon('b');
      for (const { has } of [one, other, which === 'none' ? one : startProcess()]) {
        expect([await has(), await has({ id: 'b' })]).toEqual([true, true]);
      }
    }
  });

  it.each(['rejects', 'full'] as const)(
    'is written later by a store that %s, as the logout that came meanwhile',
    async (failure) => {
      const { values, endSoon, ended } = startProcess();
      store.failure = failure;
      await Promise.all([endSoon('a'), endSoon('b')]);
      await ended.ends.end('b');
      await endSoon('b');
      store.failure = 'none';
      await values.beforeApplicationShutdown();
      expect(await startProcess().has()).toBe(false);
      expect(await startProcess().has({ id: 'b' })).toBe(true);
      expect(store.raw.size).toBe(2);
    },
  );

  it('is written later by its first time, where the person has logged in once more', async () => {
    const one = startProcess();
    store.failure = 'rejects';
    await one.endSoon();
    pass(one, MINUTE - 10_000);
    await one.ended.ends.endAll([{ id: 'a', endsAt: Date.now() + HOUR, person: 'sam' }], 'sam');
    store.failure = 'none';
    await one.values.beforeApplicationShutdown();
    const [value] = [...store.raw.values()].map((entry) => Number(entry.value) - Date.now());
    expect(value).toBeCloseTo(MINUTE, -4);
  });
});

describe('registrations in one process without a store', () => {
  const OTHER = 'another secret of the tests of ended logins';

  it('know the logouts of each other from start to close, where they have a secret in common', async () => {
    const startWith = (...secrets: string[]) => startProcess('none', {}, secrets);
    const [one, two, rotated, stranger, shared] = [
      startWith(...SECRETS),
      startWith(...SECRETS),
      startWith(OTHER, ...SECRETS),
      startWith('the secret of an unrelated application'),
      startProcess(store),
    ] as const;
    const all = [one, two, rotated, stranger, shared];
    all.forEach(({ ended }) => ended.onModuleInit());
    const known = (changed = {}) => Promise.all(all.map(({ has }) => has(changed)));
    await one.ended.ends.end('a');
    expect(await known()).toEqual([true, true, true, false, false]);
    await rotated.endAtProvider({ subject: 'sam', at: 200 });
    expect(await known({ id: 'b', loggedInAt: 200 })).toEqual([true, true, true, false, false]);
    await two.endUser('acme', 300);
    expect(await known({ id: 'b', loggedInAt: 300 })).toEqual([true, true, true, false, false]);
    await two.endSoon('c');
    expect(all.map(({ ended }) => ended.ends.isKnown('c'))).toEqual([true, true, true, false, false]);
    // By the clock of each.
    two.clock.time += 4 * HOUR;
    expect(await known()).toEqual([true, false, true, false, false]);
    rotated.ended.onApplicationShutdown();
    await one.ended.ends.end('d');
    expect(await known({ id: 'd', loggedInAt: 301 })).toEqual([true, true, false, false, false]);
    all.forEach(({ ended }) => ended.onApplicationShutdown());
  });
});

describe('a logout that the store does not take', () => {
  const lines = () => logged.warnings.filter((line) => line.includes('logout(s)'));

  it('waits in memory, 1,000 at most, and is written at the close of the application, with one warning', async () => {
    const { ended, values } = startProcess();
    store.failure = 'rejects';
    await Promise.all(Array.from({ length: 1_200 }, (_, id) => ended.ends.end(`id ${id}`)));
    store.failure = 'none';
    await values.beforeApplicationShutdown();
    expect(store.raw.size).toBe(1_000);
    expect(lines()).toHaveLength(1);
  });

  it('is written once more after a second, also while the store rests, and at the close of the application', async () => {
    const { ended, values } = startProcess();
    store.failure = 'rejects';
    await ended.ends.end('a');
    expect(store.calls).toBe(1);
    // Twice as long as it waits.
    await pause(2_200);
    expect(store.calls).toBe(2);
    store.failure = 'none';
    await values.beforeApplicationShutdown();
    expect([store.raw.size, lines()]).toEqual([1, [expect.stringMatching(/^1 logout/)]]);
    await values.beforeApplicationShutdown();
    expect(store.calls).toBe(3);
  });

  it('at the provider is not written again: a late one could replace a newer one', async () => {
    const { values, endAtProvider } = startProcess();
    store.failure = 'rejects';
    expect(await endAtProvider({ subject: 'sam', at: 100 })).toBe(false);
    store.failure = 'none';
    await values.beforeApplicationShutdown();
    expect([store.raw.size, lines()]).toEqual([0, []]);
  });
});

describe('the logout check', () => {
  it.each([
    ['a second by default', {}, 1_000],
    ['5 s', { ttl: 5_000 }, 5_000],
    ['no time', { ttl: 0 }, 0],
  ])(
    'remembers for %s that nobody logged out, and answers no promise meanwhile',
    async (_what, options, ttl) => {
      const [one, other] = [startProcess(store, options), startProcess()];
      expect(await one.has()).toBe(false);
      await other.ended.ends.end('a');
      const { calls } = store;
      if (ttl > 0) {
        one.clock.time = START + ttl - 1;
        expect(one.has()).toBe(false);
        expect(store.calls).toBe(calls);
        one.clock.time = START + ttl + 1;
      }
      expect(await one.has()).toBe(true);
    },
  );

  it('remembers one login: another of the same user, or with the same id, is asked for', async () => {
    const { has } = startProcess(store, {});
    expect(await has()).toBe(false);
    expect(has()).toBe(false);
    for (const another of [{ id: 'b' }, { subject: 'olga' }, { sid: 's' }, { loggedInAt: 1 }]) {
      const answer = has(another);
      expect(answer).toBeInstanceOf(Promise);
      expect(await answer).toBe(false);
    }
  });

  it('knows a logout at the process itself at once, by user or by provider', async () => {
    const { ended, has, endAtProvider } = startProcess(store, {});
    const foreign = { id: 'b', subject: 'olga', loggedInAt: 1 };
    expect([await has(), await has(foreign)]).toEqual([false, false]);
    await ended.ends.end('a');
    expect([has(), has(foreign)]).toEqual([true, false]);
    await endAtProvider({ subject: 'olga', at: 2 });
    expect(has(foreign)).toBe(true);
  });

  it('remembers an end and a logout that the store had, for when it is down', async () => {
    const [one, other] = [startProcess(), startProcess()];
    await other.ended.ends.end('a');
    await other.endAtProvider({ subject: 'olga', at: 200 });
    const olga = { id: 'b', subject: 'olga', loggedInAt: 200 };
    expect([await one.has(), await one.has(olga)]).toEqual([true, true]);
    store.failure = 'rejects';
    expect([one.has(), one.has(olga), await one.has({ ...olga, loggedInAt: 201 })]).toEqual([
      true,
      true,
      false,
    ]);
  });

  it('remembers no failure of the store', async () => {
    // Longer than the rest of a store that failed.
    const [one, other] = [startProcess(store, { ttl: 60_000 }), startProcess(store, {})];
    await other.ended.ends.end('a');
    store.failure = 'rejects';
    expect(await one.has()).toBe(false);
    store.failure = 'none';
    one.clock.time += 5_001;
    expect(await one.has()).toBe(true);
  });
});

/** That of another issuer, client or key is another one: test/login/back-channel.spec.ts. */
it('the registration that a logout names is that of the source of the keys, however they are written', () => {
  const registration = (changed: Partial<LoginOptions>): string => {
    const issuer = 'https://login.example';
    const whole = { issuer, clientId: 'web', redirectUri: 'https://host.example/callback', ...changed };
    const checked = checkOptions({ tenant: { ...tenantAt(), login: whole }, secrets: SECRETS });
    return registryOf(checked, new StoppedClock()).peek('default')?.registration ?? '';
  };
  const { pem, jwk } = KEYS.rs256;
  const keys = 'https://login.example/jwks';
  /** Those of a list are the same. */
  const same: Partial<LoginOptions>[][] = [
    [{ keys: pem }, { keys: pem.replaceAll('\n', '\\n') }],
    [{ keys: jwk }, { keys: JSON.stringify(jwk) }],
    [{ keys }, { keys, clockTolerance: 7 }],
    [{ keys: 'https://other.example/jwks' }],
    [{ keys: KEYS.attacker.pem }],
    [{ discovery: true }],
  ];
  const found = same.map((all) => [...new Set(all.map(registration))]);
  expect(found).toEqual(found.map(() => [expect.stringMatching(/^[\w-]{22}$/)]));
  expect(new Set(found.flat()).size).toBe(same.length);
});
