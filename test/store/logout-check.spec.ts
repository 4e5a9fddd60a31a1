import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import type { LoginOptions, SharedStore } from '../../lib/index.js';
import { checkOptions } from '../../lib/options/check-options.js';
import { EndedLogins } from '../../lib/store/ended-logins.service.js';
import { Sealer } from '../../lib/store/sealer.service.js';
import { SharedValues } from '../../lib/store/shared-values.service.js';
import { StoppedClock } from '../support/clock.js';
import { KEYS } from '../support/provider-keys.js';
import { registryOf } from '../support/registry.js';
import { MemoryStore } from './memory-store.js';

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
const SECRETS = ['the secret of the tests of logouts, long'];

interface Process {
  ended: EndedLogins;
  hasEnded(login: Parameters<EndedLogins['has']>[0]): boolean | Promise<boolean>;
  clock: StoppedClock;
}

/** The logout check of one process. */
function startProcess(store: SharedStore, logoutCheck?: { ttl: number }): Process {
  const clock = new StoppedClock();
  clock.time = START;
  const options = checkOptions({
    tenant: TENANT,
    secrets: SECRETS,
    store,
    logoutCheck: { provider: true, ...logoutCheck },
  });
  const values = new SharedValues(options, new Sealer(options, clock), clock);
  const ended = new EndedLogins(options, values, clock);
  return { ended, clock, hasEnded: (login) => ended.has(login, 'r') };
}

const login = (id: string, subject = 'sam') => ({
  id,
  registration: 'r',
  subject,
  loggedInAt: 1,
});
const logOut = ({ ended }: Process, id: string): Promise<void> => ended.end(id);

beforeEach(() => {
  jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
});
afterEach(() => void jest.restoreAllMocks());

describe('the logout check of requests at the same time', () => {
  it('shares no read with one that began before', async () => {
    const store = new MemoryStore();
    const [one, other] = [startProcess(store, { ttl: 0 }), startProcess(store)];
    const before = one.hasEnded(login('a'));
    await new Promise(setImmediate);
    const after = logOut(other, 'a').then(() => one.hasEnded(login('a')));
    expect([await before, await after]).toEqual([false, true]);
  });
});

describe('logoutCheck.ttl', () => {
  it('remembers for a second by default that nobody logged out, and answers no promise meanwhile', async () => {
    const store = new MemoryStore();
    const [one, other] = [startProcess(store), startProcess(store)];
    expect(await one.hasEnded(login('a'))).toBe(false);
    await logOut(other, 'a');
    const { calls } = store;
    one.clock.time = START + 999;
    expect(one.hasEnded(login('a'))).toBe(false);
    expect(store.calls).toBe(calls);
    one.clock.time = START + 1_001;
    expect(await one.hasEnded(login('a'))).toBe(true);
  });

  it.each([5_000, 0])('may be %i', async (ttl) => {
    const store = new MemoryStore();
    const [one, other] = [startProcess(store, { ttl }), startProcess(store)];
    expect(await one.hasEnded(login('a'))).toBe(false);
    await logOut(other, 'a');
    one.clock.time = START + Math.max(0, ttl - 1);
    expect(await one.hasEnded(login('a'))).toBe(ttl === 0);
    one.clock.time = START + ttl + 1;
    expect(await one.hasEnded(login('a'))).toBe(true);
  });

  it('holds for one login: another of the same user, or with the same id, is asked for', async () => {
    const store = new MemoryStore();
    const { hasEnded } = startProcess(store);
    expect(await hasEnded(login('a'))).toBe(false);
    expect(hasEnded(login('a'))).toBe(false);
    for (const another of [
      login('b'),
      login('a', 'olga'),
      { ...login('a'), sid: 's' },
      { ...login('a'), loggedInAt: 0 },
    ]) {
      const answer = hasEnded(another);
      expect(answer).toBeInstanceOf(Promise);
      expect(await answer).toBe(false);
    }
  });

  it('does not delay a logout at the process itself, by user or by provider', async () => {
    const process = startProcess(new MemoryStore());
    const [byUser, byProvider] = [Object.freeze(login('a')), Object.freeze(login('b', 'olga'))];
    expect(await Promise.all([byUser, byProvider].map((one) => process.hasEnded(one)))).toEqual([
      false,
      false,
    ]);
    await logOut(process, 'a');
    expect(process.hasEnded(byUser)).toBe(true);
    expect(process.hasEnded(byProvider)).toBe(false);
    await process.ended.endAtProvider({ registration: 'r', subject: 'olga', at: 2 });
    expect(process.hasEnded(byProvider)).toBe(true);
  });

  it.each(['throws', 'rejects'] as const)(
    'does not hold for a failure of the store: it %s',
    async (failure) => {
      const store = new MemoryStore();
      const [one, other] = [startProcess(store), startProcess(store)];
      await logOut(other, 'a');
      store.failure = failure;
      expect(await one.hasEnded(login('a'))).toBe(false);
      store.failure = 'none';
      one.clock.time += 5_000;
      expect(await one.hasEnded(login('a'))).toBe(true);
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
