import { createHash } from 'node:crypto';
import { afterAll, afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  ExhibitorLogins,
  type ExhibitorModuleOptions,
  type SharedStore,
  type TenantOptions,
} from '../../lib/index.js';
import { Sealer } from '../../lib/store/sealer.service.js';
import { clockOf } from '../support/clock.js';
import { COOKIE_SECRET, startHost, type Host, type HostKind } from '../support/host.js';
import { useHost } from '../support/lifetimes.js';
import { loggedLines } from '../support/logged-lines.js';
import { ScriptedProvider } from '../support/provider.js';
import { Visitor } from '../support/visitor.js';
import { eventually, pause } from '../support/wait.js';
import { logOut } from '../nest/signed-in.js';
import { copyOf, expectRefusal, identityOf, logIn, toHost, toProvider } from '../login/journey.js';
import { MemoryStore } from './memory-store.js';

const HOUR = 3_600_000;
const LOGIN_TTL = HOUR;

const { warnings } = loggedLines();
const store = new MemoryStore();
const provider = await ScriptedProvider.start();
/** Two processes of one host behind a load balancer: the same options, the same callback, one store. */
const one = useHost(() => startProcess('express'));
const other = useHost(() => startProcess('fastify', one.callback));
beforeEach(() => {
  store.raw.clear();
  store.calls = 0;
});
afterEach(async () => {
  store.failure = 'none';
  provider.script = {};
  // Longer than a store that failed rests, and than the time between two equal warnings.
  [one, other].forEach(({ app }) => clockOf(app).skip(61_000, ['now']));
});
afterAll(() => provider.stop());

function start(
  options: (callback: string) => ExhibitorModuleOptions,
  kind: HostKind = 'express',
): Promise<Host> {
  const common = { secrets: [COOKIE_SECRET], logoutCheck: { ttl: 0 } };
  return startHost({ kind, options: (callback) => ({ ...common, ...options(callback) }) });
}

function startProcess(kind: HostKind, callback?: string): Promise<Host> {
  return start((own) => ({ tenant: provider.tenantOptions(callback ?? own), store }), kind);
}

async function loggedIn(host: Host): Promise<Visitor> {
  const visitor = new Visitor();
  expect((await logIn(visitor, host)).status).toBe(303);
  return visitor;
}

/** Two people who are logged in at a host, and a copy of the cookie of the first, who will log out. */
async function twoLoggedIn(host: Host) {
  const [visitor, stays] = [await loggedIn(host), await loggedIn(host)];
  return { visitor, stays, copy: copyOf(visitor, host) };
}

const isLoggedIn = async (visitor: Visitor, host: Host): Promise<boolean> =>
  (await identityOf(visitor, host)) !== undefined;

describe('processes of a host with one store, on express and on fastify', () => {
  it('finish a login once, in either process, also where the store was emptied in between', async () => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, one);
    const [first, second] = [copyOf(visitor, one), copyOf(visitor, one)];
    expect((await toHost(visitor, arrival)).status).toBe(303);
    const atOther = { ...arrival, callback: arrival.callback.replace(one.url, other.url) };
    expectRefusal(await toHost(first, atOther), 'state');
    store.raw.clear();
    expectRefusal(await toHost(second, arrival), 'state');
  });

  it('finish a login once where both are requested at the same time', async () => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, one);
    const replies = await Promise.all(
      [one, other].map(({ url }) =>
        toHost(copyOf(visitor, one), { ...arrival, callback: `${url}/auth/callback` }),
      ),
    );
    expect(replies.map(({ status }) => status).toSorted()).toEqual([303, 401]);
  });

  it('share logins and logouts, and store no readable address or cookie', async () => {
    const visitor = await loggedIn(one);
    const copy = copyOf(visitor, one);
    expect(await isLoggedIn(copy, other)).toBe(true);
    const cookie = visitor.cookies('127.0.0.1').get('exhibitor-identity') ?? 'none';
    expect((await logOut(visitor, one)).status).toBe(303);
    expect([await isLoggedIn(copy, one), await isLoggedIn(copy, other)]).toEqual([false, false]);
    expect(store.raw.size).toBe(2);
    for (const secret of ['pat', 'example.com', cookie]) {
      expect(store.dump).not.toContain(secret);
    }
  });

  it.each(['rejects', 'hangs'] as const)('continue while the store %s', async (failure) => {
    store.failure = failure;
    const visitor = await loggedIn(one);
    expect(await isLoggedIn(visitor, one)).toBe(true);
    const copy = copyOf(visitor, one);
    expect((await logOut(visitor, one)).status).toBe(303);
    expect(await isLoggedIn(copy, one)).toBe(false);
    // Not every request waits: a store that failed rests, but for the logout.
    expect(store.calls).toBeLessThanOrEqual(3);
    expect(warnings).toContainEqual(expect.stringContaining('the shared store does not answer'));
  });
});

describe('processes whose client of the store parses values that are JSON', () => {
  const parsing: SharedStore = {
    get: async (key) => {
      const text = await store.get(key);
      // A flag and a time are JSON, what is sealed is not.
      return /^\d+$/.test(text ?? '') ? JSON.parse(text ?? '') : text;
    },
    set: (...given) => store.set(...given),
    delete: (key) => store.delete(key),
  };
  const startParsing = (callback?: string): Promise<Host> =>
    start((own) => ({ tenant: provider.tenantOptions(callback ?? own), store: parsing }));
  const first = useHost(() => startParsing());
  const second = useHost(() => startParsing(first.callback));

  it('finish a login once', async () => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, first);
    const copy = copyOf(visitor, first);
    expect((await toHost(visitor, arrival)).status).toBe(303);
    const callback = arrival.callback.replace(first.url, second.url);
    expectRefusal(await toHost(copy, { ...arrival, callback }), 'state');
  });

  it('share the end of a login, and of all logins of a user', async () => {
    const [visitor, stays] = [await loggedIn(first), await loggedIn(first)];
    const copy = copyOf(visitor, first);
    expect((await logOut(visitor, first)).status).toBe(303);
    expect([await isLoggedIn(copy, second), await isLoggedIn(stays, second)]).toEqual([false, true]);
    await first.app.get(ExhibitorLogins).end({ tenant: 'default', subject: 'pat' });
    expect(await isLoggedIn(stays, second)).toBe(false);
  });
});

describe('used login states', () => {
  /** Logouts of earlier tests may still be written. */
  const spentStates = () => [...store.raw].filter(([name]) => name.includes(':spent-state:'));

  /** A callback that anybody can send: a login that was started, and an answer that the provider never gave. */
  async function forged(answer: Record<string, string>): Promise<string> {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, one);
    const state = arrival.parameters.get('state') ?? '';
    const parameters = new URLSearchParams({ state, ...answer });
    expect((await toHost(visitor, { ...arrival, parameters })).status).toBe(401);
    return state;
  }

  it('are a key alone, the same in every version, which says nothing and lives as long as its login can', async () => {
    const state = await forged({ code: 'forged' });
    const { id } = Object(await one.app.get(Sealer).open('login', state));
    const digest = createHash('sha256').update(id);
    const [[name, { value, until }] = ['', { value: '', until: 0 }], ...others] = spentStates();
    expect(name).toBe(`nestjs-exhibitor:spent-state:${digest.digest('base64url')}`);
    expect([value, others]).toEqual(['1', []]);
    const left = until - Date.now();
    expect(left).toBeGreaterThan(LOGIN_TTL - 60_000);
    // Its seal ends a few milliseconds later than a login that lasts LOGIN_TTL from its start.
    expect(left).toBeLessThan(LOGIN_TTL + 1_000);
  });

  it('leave nothing in the store where the callback has an error: its login cookie goes', async () => {
    await forged({ error: 'access_denied' });
    await forged({ error: '' });
    await forged({ error: 'server_error', code: 'forged' });
    expect(spentStates()).toEqual([]);
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, one);
    const { callback, parameters } = arrival;
    await visitor.visit(`${callback}?error=access_denied&state=${parameters.get('state')}`);
    expectRefusal(await toHost(visitor, arrival), 'state');
  });

  it('refuse no login where the store is full and writes nothing, but those that it holds are used', async () => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, one);
    const copy = copyOf(visitor, one);
    store.failure = 'full';
    expect((await toHost(visitor, arrival)).status).toBe(303);
    expectRefusal(await toHost(copy, arrival), 'state');
    store.failure = 'none';
    const next = await toProvider(visitor, one);
    const again = copyOf(visitor, one);
    expect((await toHost(visitor, next)).status).toBe(303);
    store.failure = 'full';
    const atOther = { ...next, callback: next.callback.replace(one.url, other.url) };
    expectRefusal(await toHost(again, atOther), 'state');
  });
});

describe('a logout that the store has not taken', () => {
  it('is written as soon as it can be', async () => {
    const { visitor, stays, copy } = await twoLoggedIn(one);
    store.failure = 'rejects';
    expect((await logOut(visitor, one)).status).toBe(303);
    expect(await isLoggedIn(copy, one)).toBe(false);
    store.failure = 'none';
    expect(await isLoggedIn(copy, other)).toBe(true);
    await eventually(async () => !(await isLoggedIn(copy, other)));
    expect(await isLoggedIn(stays, other)).toBe(true);
    expect(warnings.filter((line) => line.includes('logout(s)'))).toHaveLength(1);
  });

  it('is written when the application is closed', async () => {
    const closing = await startProcess('express', one.callback);
    const { visitor, stays, copy } = await twoLoggedIn(one);
    store.failure = 'rejects';
    await logOut(copy, closing);
    store.failure = 'none';
    await closing.close();
    expect(await isLoggedIn(visitor, other)).toBe(false);
    expect(await isLoggedIn(stays, other)).toBe(true);
  });

  it('is written before the host closes its client in onApplicationShutdown, also where that takes a while', async () => {
    const client = { isOpen: true, onApplicationShutdown: () => void (client.isOpen = false) };
    const slow: SharedStore = {
      get: (key) => store.get(key),
      set: async (...given) => {
        await pause(200);
        return client.isOpen && store.set(...given);
      },
      delete: (key) => store.delete(key),
    };
    const closing = await startHost({
      options: () => ({
        tenant: provider.tenantOptions(one.callback),
        secrets: [COOKIE_SECRET],
        store: slow,
      }),
      providers: [{ provide: 'client', useValue: client }],
    });
    const { visitor, copy } = await twoLoggedIn(one);
    store.failure = 'rejects';
    await logOut(copy, closing);
    store.failure = 'none';
    await closing.close();
    expect([client.isOpen, await isLoggedIn(visitor, other)]).toEqual([false, false]);
  });

  it('does not delay the close of the application by more than a second, and the loss is logged', async () => {
    const closing = await startProcess('express', one.callback);
    const visitor = await loggedIn(one);
    store.failure = 'hangs';
    await logOut(visitor, closing);
    const began = performance.now();
    await closing.close();
    expect(performance.now() - began).toBeLessThan(2_500);
    expect(warnings.at(-1)).toMatch(/^1 logout/);
  });
});

describe('a logout while the tenant cannot be found', () => {
  type Source = (options: TenantOptions) => TenantOptions | undefined | Promise<TenantOptions | undefined>;
  let source: Source = (options) => options;
  const host = useHost(() =>
    start((callback) => ({
      // Asked for at each request.
      tenants: { find: () => source(provider.tenantOptions(callback)) },
      allowedOrigins: () => true,
      resolveTenant: ({ url }) => (url.includes('/auth/login') ? 'acme' : undefined),
      tenantCache: { ttl: 1 },
      http: { deadline: 1_000 },
    })),
  );

  /** Does something while the source fails. */
  async function whileFailing<T>(failing: Source, work: () => Promise<T>): Promise<T> {
    const clock = clockOf(host.app);
    clock.skip(1_000);
    source = failing;
    const result = await work();
    source = (options) => options;
    // Longer than an unknown tenant is remembered.
    clock.skip(10_000);
    return result;
  }

  const isDown: Source = () => Promise.reject(new Error('the database is down'));

  it.each<[string, Source]>([
    ['throws', isDown],
    ['is silent', () => new Promise<undefined>(() => undefined)],
    ['knows it no more', () => undefined],
    ['answers wrong options', (options) => ({ ...options, tenantId: '' })],
  ])('because its source %s clears the cookie and denies the identity', async (_what, failing) => {
    const { visitor, stays, copy } = await twoLoggedIn(host);
    expect((await whileFailing(failing, () => logOut(visitor, host))).status).toBe(303);
    expect(visitor.cookies('127.0.0.1').has('exhibitor-identity')).toBe(false);
    expect([await isLoggedIn(copy, host), await isLoggedIn(stays, host)]).toEqual([false, true]);
  });

  it.each<Record<string, string>>([{ 'sec-fetch-site': 'cross-site' }, { origin: 'https://evil.example' }])(
    'is still refused where another site causes it: %j',
    async (headers) => {
      const visitor = await loggedIn(host);
      expect((await whileFailing(isDown, () => logOut(visitor, host, headers))).status).toBe(400);
      expect(await isLoggedIn(visitor, host)).toBe(true);
    },
  );
});

describe('a logout where a bearer token comes first', () => {
  it('denies the identity of the cookie', async () => {
    const audience = { idToken: 'hostile-web', accessToken: 'hostile-api' };
    const login = { audience, authorizedParties: ['hostile-web'] };
    const host = await start((callback) => ({
      tenant: provider.tenantOptions(callback, login),
      session: ['bearer', 'cookie'],
    }));
    const { visitor, copy } = await twoLoggedIn(host);
    expect((await logOut(visitor, host, { authorization: 'Bearer x' })).status).toBe(303);
    expect(await isLoggedIn(copy, host)).toBe(false);
    await host.close();
  });
});
