import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import type { ExhibitorModuleOptions, TenantOptions } from '../../lib/index.js';
import { clockOf } from '../support/clock.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { ScriptedProvider } from '../support/provider.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { eventually } from '../support/wait.js';
import { copyOf, identityOf, logIn } from '../login/journey.js';
import { MemoryStore } from './memory-store.js';
import type { OtherOptions } from '../support/module-options.js';

const HOUR = 3_600_000;
const IDENTITY_TTL = 8 * HOUR;

let provider: ScriptedProvider;
let store: MemoryStore;
let warnings: string[];
const hosts: Host[] = [];
beforeAll(async () => {
  provider = await ScriptedProvider.start();
});
beforeEach(() => {
  store = new MemoryStore();
  warnings = [];
  jest.spyOn(Logger.prototype, 'warn').mockImplementation((message: unknown) => {
    warnings.push(String(message));
  });
});
afterEach(async () => {
  provider.script = {};
  jest.restoreAllMocks();
  await Promise.all(hosts.splice(0).map((host) => host.close()));
});
afterAll(() => provider?.stop());

async function start(options: (callback: string) => ExhibitorModuleOptions): Promise<Host> {
  const host = await startHost({
    options: (callback) => ({ secrets: [COOKIE_SECRET], logoutCheck: { ttl: 0 }, ...options(callback) }),
  });
  hosts.push(host);
  return host;
}

/** Two processes with one store and one callback. */
async function startBoth(): Promise<{ one: Host; other: Host }> {
  const one = await start((callback) => ({ tenant: provider.tenantOptions(callback), store }));
  const other = await start(() => ({ tenant: provider.tenantOptions(one.callback), store }));
  return { one, other };
}

async function loggedIn(host: Host): Promise<Visitor> {
  const visitor = new Visitor();
  expect((await logIn(visitor, host)).status).toBe(303);
  return visitor;
}

function logOut(visitor: Visitor, host: Host, headers: Record<string, string> = {}): Promise<Reply> {
  return visitor.visit(`${host.url}/auth/logout`, { method: 'POST', headers });
}

const isLoggedIn = async (visitor: Visitor, host: Host): Promise<boolean> =>
  (await identityOf(visitor, host)) !== undefined;

describe('a logout', () => {
  it.each(['throws', 'rejects', 'hangs'] as const)(
    'is written to a store that %s as soon as the store is back',
    async (failure) => {
      const { one, other } = await startBoth();
      const [visitor, stays] = [await loggedIn(one), await loggedIn(one)];
      const copy = copyOf(visitor, one);
      store.failure = failure;
      expect((await logOut(visitor, one)).status).toBe(303);
      expect(await isLoggedIn(copy, one)).toBe(false);
      store.failure = 'none';
      expect(await isLoggedIn(copy, other)).toBe(true);
      await eventually(async () => !(await isLoggedIn(copy, other)));
      expect(await isLoggedIn(stays, other)).toBe(true);
      expect(warnings.filter((line) => line.includes('logout'))).toHaveLength(1);
    },
  );
});

describe('a logout that the store has not taken', () => {
  it('is written when the application is closed', async () => {
    const { one, other } = await startBoth();
    const [visitor, stays] = [await loggedIn(one), await loggedIn(one)];
    store.failure = 'hangs';
    await logOut(copyOf(visitor, one), one);
    store.failure = 'none';
    await one.close();
    expect(await isLoggedIn(visitor, other)).toBe(false);
    expect(await isLoggedIn(stays, other)).toBe(true);
  });

  it('does not delay the close of the application by more than a second, and the loss is logged', async () => {
    const { one } = await startBoth();
    const visitor = await loggedIn(one);
    store.failure = 'hangs';
    await logOut(visitor, one);
    const began = performance.now();
    await one.close();
    expect(performance.now() - began).toBeLessThan(2_500);
    expect(warnings.at(-1)).toMatch(/^1 logout/);
  });
});

describe('a logout while the tenant cannot be found', () => {
  let source: (options: TenantOptions) => TenantOptions | undefined | Promise<TenantOptions | undefined>;
  beforeEach(() => {
    source = (options) => options;
  });

  /** A host whose tenants are asked for at each request. */
  async function startWithSource(options: OtherOptions = {}): Promise<Host> {
    return start((callback) => ({
      tenants: { find: () => source(provider.tenantOptions(callback)) },
      allowedOrigins: () => true,
      resolveTenant: ({ url }) => (url.includes('/auth/login') ? 'acme' : undefined),
      tenantCache: { ttl: 1 },
      http: { deadline: 200 },
      ...options,
    }));
  }

  it.each([
    ['throws', () => Promise.reject(new Error('the database is down'))],
    ['is silent', () => new Promise<undefined>(() => undefined)],
    ['knows it no more', () => undefined],
    ['answers wrong options', (options: TenantOptions) => ({ ...options, tenantId: '' })],
  ])('because its source %s clears the cookie and denies the identity', async (_what, failing) => {
    const host = await startWithSource();
    const [visitor, stays] = [await loggedIn(host), await loggedIn(host)];
    const copy = copyOf(visitor, host);
    source = failing;
    const clock = clockOf(host.app);
    clock.skip(1_000);
    const reply = await logOut(visitor, host);
    expect(reply.status).toBe(303);
    expect(visitor.cookies('127.0.0.1').has('exhibitor-identity')).toBe(false);
    source = (options) => options;
    // Longer than an unknown tenant is remembered.
    clock.skip(10_000);
    expect(await isLoggedIn(copy, host)).toBe(false);
    expect(await isLoggedIn(stays, host)).toBe(true);
  });

  it('asks for no tenant where the browser says that the request is of this site', async () => {
    const host = await startWithSource();
    const visitor = await loggedIn(host);
    const copy = copyOf(visitor, host);
    let asked = 0;
    source = () => {
      asked++;
      return new Promise<undefined>(() => undefined);
    };
    const clock = clockOf(host.app);
    clock.skip(1_000);
    expect((await logOut(visitor, host, { 'sec-fetch-site': 'same-origin' })).status).toBe(303);
    expect(asked).toBe(0);
    source = (options) => options;
    clock.skip(10_000);
    expect(await isLoggedIn(copy, host)).toBe(false);
  });

  it.each<Record<string, string>>([{ 'sec-fetch-site': 'cross-site' }, { origin: 'https://evil.example' }])(
    'is still refused where another site causes it: %j',
    async (headers) => {
      const host = await startWithSource();
      const visitor = await loggedIn(host);
      source = () => Promise.reject(new Error('the database is down'));
      const clock = clockOf(host.app);
      clock.skip(1_000);
      expect((await logOut(visitor, host, headers)).status).toBe(400);
      source = (options) => options;
      clock.skip(10_000);
      expect(await isLoggedIn(visitor, host)).toBe(true);
    },
  );

  it('denies the identity of the cookie also where a bearer token comes first', async () => {
    const host = await start((callback) => {
      const tenant = provider.tenantOptions(callback, {
        audience: { idToken: 'hostile-web', accessToken: 'hostile-api' },
        authorizedParties: ['hostile-web'],
      });
      return { tenant, session: ['bearer', 'cookie'] };
    });
    const visitor = await loggedIn(host);
    const copy = copyOf(visitor, host);
    expect((await logOut(visitor, host, { authorization: 'Bearer x' })).status).toBe(303);
    expect(await isLoggedIn(copy, host)).toBe(false);
  });
});

describe('a clock that goes back an hour', () => {
  it('revives no logged-out cookie, neither here nor at another process', async () => {
    const { one, other } = await startBoth();
    const [visitor, stays] = [await loggedIn(one), await loggedIn(one)];
    const copy = copyOf(visitor, one);
    await logOut(visitor, one);
    // Eight hours pass, and the date is set back by one hour meanwhile.
    for (const host of [one, other]) {
      const clock = clockOf(host.app);
      clock.skip(IDENTITY_TTL + 1_000, ['now']);
      clock.skip(IDENTITY_TTL + 1_000 - HOUR, ['epochMs']);
    }
    store.skip(IDENTITY_TTL + 1_000);
    for (const host of [one, other]) {
      expect(await isLoggedIn(copy, host)).toBe(false);
      expect(await isLoggedIn(stays, host)).toBe(true);
    }
  });

  it('revives no cookie of a logout at a time when the cookie seemed to be expired', async () => {
    const { one } = await startBoth();
    const [visitor, stays] = [await loggedIn(one), await loggedIn(one)];
    const copy = copyOf(visitor, one);
    const clock = clockOf(one.app);
    clock.skip(IDENTITY_TTL + HOUR / 2, ['epochMs']);
    expect(await isLoggedIn(copy, one)).toBe(false);
    await logOut(visitor, one);
    clock.skip(-HOUR, ['epochMs']);
    expect(await isLoggedIn(copy, one)).toBe(false);
    expect(await isLoggedIn(stays, one)).toBe(true);
  });
});
