/** A sandbox as a whole: its start and end, who may reach it, and its faults. */
import { createServer } from 'node:net';
import { jest } from '@jest/globals';
import { defaultSeed, type Fault } from 'nestjs-exhibitor/testing';
import { createProviderStorage } from '../../lib/testing/sandbox/provider/provider-storage.js';
import { type AnyFault, stall } from '../support/faults.js';
import { useSandbox } from '../support/lifetimes.js';
import { openConnections, openRequests, startSandbox } from '../support/sandbox.js';
import { follow } from '../support/server.js';
import { Visitor } from '../support/visitor.js';
import { eventually } from '../support/wait.js';
import { apiHeaders, askToken, eventUrl } from './rest-client.js';

const sandbox = await useSandbox({ hosts: ['sandbox.internal'] });
const headers = await apiHeaders(sandbox, 'acme');
beforeEach(() => sandbox.clearRequests());

describe('the lifecycle of a sandbox', () => {
  it('starts on the given port, and reports clearly when it is taken', async () => {
    const taken = await follow(createServer());
    const port = Number(new URL(taken.url).port);
    await expect(startSandbox({ port })).rejects.toThrow(
      `ExhibitorSandbox: port ${port} on 127.0.0.1 is already in use. Choose another by port (--port), or 0 for any free one`,
    );
    await taken.stop();
    const second = await startSandbox({ port });
    expect(second.url).toBe(`http://127.0.0.1:${port}`);
    await second.stop();
  });

  it('refuses to start in production', async () => {
    const before = process.env['NODE_ENV'];
    process.env['NODE_ENV'] = 'production';
    try {
      await expect(startSandbox()).rejects.toThrow(/does not start with NODE_ENV=production/);
    } finally {
      process.env['NODE_ENV'] = before;
    }
  });

  it('stops with open connections', async () => {
    const stopped = await startSandbox();
    const own = { headers: await apiHeaders(stopped, 'acme') };
    const faults: AnyFault[] = [stall('before-headers'), stall('mid-body'), { kind: 'delay', ms: 600_000 }];
    faults.forEach((fault) => stopped.failNext('list', fault));
    const replies = faults.map(async () => (await fetch(eventUrl(stopped, 'world-2026'), own)).text());
    const outcomes = Promise.allSettled(replies);
    await eventually(() => openRequests(stopped) === faults.length);
    expect(openConnections(stopped)).toBeGreaterThanOrEqual(faults.length);
    await stopped.stop();
    await stopped.stop();
    expect((await outcomes).map(({ status }) => status)).toEqual(faults.map(() => 'rejected'));
    expect(openConnections(stopped)).toBe(0);
    await eventually(() => openRequests(stopped) === 0);
    await expect(fetch(stopped.url)).rejects.toThrow('fetch failed');
  });

  it('serves the given seed', async () => {
    const seed = defaultSeed();
    seed.tenants.push({
      key: 'umbrella',
      name: 'Umbrella',
      tenantId: '9c2e1b74-0d3a-4f5b-a6c8-0e1f2a3b4c5d',
      clientId: 'umbrella-api',
      clientSecret: 'umbrella-secret',
      loginClientId: 'umbrella-web',
      loginClientSecret: 'umbrella-web-secret',
      publicLoginClientId: 'umbrella-app',
    });
    seed.exhibitors['umbrella'] = { 'boutique-2026': [{ id: 'u-1', contactEmails: [] }] };
    const seeded = await startSandbox({ seed });
    const own = { headers: await apiHeaders(seeded, 'umbrella') };
    const statusOf = async (eventId: string): Promise<number> =>
      (await fetch(eventUrl(seeded, eventId), own)).status;
    expect([await statusOf('boutique-2026'), await statusOf('world-2026')]).toEqual([200, 404]);
    const unknown = 'no tenant "nobody"; it has acme, globex, initech, umbrella';
    expect(() => seeded.tenantOptions('nobody')).toThrow(unknown);
    await seeded.stop();
  });

  it('gives every tenant its own records, the same at each start', () => {
    const { exhibitors, tenants, events } = defaultSeed();
    expect(defaultSeed().exhibitors['globex']).toEqual(exhibitors['globex']);
    const all = tenants.flatMap(({ key }) => events.flatMap(({ id }) => exhibitors[key]?.[id] ?? []));
    expect(new Set(all.map(({ id }) => id)).size).toBe(3 * (7 + 50 + 251 + 1234));
    expect(new Set(exhibitors['acme']?.['world-2026']?.map(({ name }) => name)).size).toBe(1234);
  });
});

describe('the import of oidc-provider', () => {
  const FILE = '../../lib/testing/sandbox/provider/load-provider.js';
  /** A module of its own, as in a process that has not started a sandbox. */
  const freshly = async (): Promise<typeof import('../../lib/testing/sandbox/provider/load-provider.js')> => {
    jest.resetModules();
    return import(FILE);
  };

  it('prints nothing and leaves console.warn as it was, also where several start at once', async () => {
    const { warn, info, error } = console;
    const said: unknown[] = [];
    const add = (...message: unknown[]): void => void said.push(message);
    Object.assign(console, { warn: add, info: add, error: add });
    try {
      const { loadProvider } = await freshly();
      const loads = [loadProvider(), loadProvider()];
      expect(console.warn).not.toBe(add);
      await Promise.all(loads);
      expect(console.warn).toBe(add);
    } finally {
      Object.assign(console, { warn, info, error });
    }
    expect(said).toEqual([]);
  });

  it.each([
    ['oidc-provider', /npm install --save-dev oidc-provider@9/],
    ['koa', /^Cannot find package 'koa'/],
  ])(
    'names the command that installs a missing oidc-provider, and only for that: %s',
    async (name, message) => {
      jest.unstable_mockModule('oidc-provider', () => {
        throw new Error(`Cannot find package '${name}' imported from /host/index.js`);
      });
      const { loadProvider } = await freshly();
      await expect(loadProvider()).rejects.toThrow(message);
      jest.unstable_unmockModule('oidc-provider');
    },
  );
});

describe('pages of other sites', () => {
  const MIB = 1024 * 1024;
  const ROUTES = [
    '/connect/token',
    '/connect/authorize?client_id=acme-web',
    '/connect/userinfo',
    '/connect/jwks',
    '/connect/login/x',
    '/.well-known/openid-configuration',
    '/api/v1/exhibitor/event/world-2026',
    '/api/v1/exhibitor/event/world-2026/contactEmail/olga.one@example.com',
    '/sandbox',
    '/sandbox/tenants',
    '/',
  ];
  const statuses = (host: string): Promise<number[]> =>
    Promise.all(
      ROUTES.map(
        async (path) => (await new Visitor().visit(`${sandbox.url}${path}`, { headers: { host } })).status,
      ),
    );

  it.each([
    'rebound.example',
    'rebound.example:4010',
    'localhost.example',
    'notlocalhost',
    '10.0.0.1',
    '128.0.0.1',
    '127.0.0.1.example',
    'other.internal',
    'a b',
  ])('are refused on all routes with the Host %j', async (host) => {
    expect(await statuses(host)).toEqual(ROUTES.map(() => 403));
    expect(sandbox.requests).toEqual([]);
  });

  it.each([
    'LOCALHOST:4010',
    'acme.localhost:4010',
    '127.0.0.1',
    '127.8.9.10:80',
    '[::1]:4010',
    'sandbox.internal:4010',
  ])('are not those with the Host %j', async (host) => {
    expect(await statuses(host)).not.toContain(403);
  });

  const post = (path: string, size: number): Promise<Response> =>
    fetch(`${sandbox.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: `a=${'x'.repeat(size - 2)}`,
    });

  // The provider itself takes less.
  it.each(['/', '/api/v1/exhibitor/event/world-2026', '/sandbox/faults'])(
    'send forms of 1 MiB at most to %s',
    async (path) => {
      expect((await post(path, MIB)).status).not.toBe(413);
      // The connection may be closed before the whole body was sent.
      const status = await post(path, MIB + 1).then(
        (reply) => reply.status,
        () => 413,
      );
      expect(status).toBe(413);
      expect((await fetch(`${sandbox.url}/connect/jwks`)).status).toBe(200);
    },
  );

  it('send no more in chunks, without a length', async () => {
    const body = new Blob(['x'.repeat(2 * MIB)]).stream();
    const sent = fetch(`${sandbox.url}/connect/token`, { method: 'POST', body, duplex: 'half' });
    const status = await sent.then(
      (reply) => reply.status,
      () => 413,
    );
    expect(status).toBe(413);
  });

  it('push the oldest requests out of what is kept, 16 MiB', async () => {
    for (let sent = 0; sent < 20; sent += 1) {
      await post(`/api/v1/exhibitor/event/e-${sent}`, MIB);
    }
    const kept = sandbox.requests.map(({ path }) => path);
    expect(kept.length).toBeGreaterThan(10);
    expect(kept.length).toBeLessThan(17);
    expect(kept.at(-1)).toBe('/api/v1/exhibitor/event/e-19');
  });

  it('push the oldest logins out of the provider, 32 MiB', async () => {
    const logins = createProviderStorage()('Interaction');
    const params = { state: 'x'.repeat(MIB) };
    for (let sent = 0; sent < 40; sent += 1) {
      await logins.upsert(`login-${sent}`, { params }, 3600);
    }
    const found = await Promise.all(['login-0', 'login-7', 'login-39'].map((id) => logins.find(id)));
    expect(found.map(Boolean)).toEqual([false, false, true]);
  });
});

describe('faults', () => {
  const send = {
    list: () => fetch(eventUrl(sandbox, 'world-2026'), { headers }),
    token: () => askToken(sandbox.tenantOptions('acme')),
  };

  /** The status of a list request of a tenant. */
  const list = async (key: string) =>
    (await fetch(eventUrl(sandbox, 'boutique-2026'), { headers: await apiHeaders(sandbox, key) })).status;

  const FAULTS: [string, Fault, status: number, type: string, body: unknown][] = [
    [
      'a status with its headers',
      { kind: 'status', status: 503, headers: { 'retry-after': '7' } },
      503,
      'application/json; charset=utf-8',
      expect.stringContaining('"error":"sandbox_fault"'),
    ],
    [
      'HTML with 200',
      { kind: 'body', body: '<p>Hi</p>', contentType: 'text/html' },
      200,
      'text/html',
      '<p>Hi</p>',
    ],
    ['an empty 200', { kind: 'body', body: '' }, 200, 'application/json; charset=utf-8', ''],
  ];

  // The REST API and the provider send their replies in ways of their own.
  describe.each(['token', 'list'] as const)('on %s', (operation) => {
    afterEach(() => expect(sandbox.requests.at(-1)).toMatchObject({ operation, fault: expect.any(String) }));

    it.each(FAULTS)('answer %s', async (_what, fault, status, type, body) => {
      sandbox.failNext(operation, fault);
      const reply = await send[operation]();
      expect([reply.status, reply.headers.get('content-type')]).toEqual([status, type]);
      expect(reply.headers.get('retry-after')).toBe(fault.kind === 'status' ? '7' : null);
      expect(await reply.text()).toEqual(body);
      expect(sandbox.requests.at(-1)?.fault).toBe(fault.kind);
    });

    it('answer late with the normal reply', async () => {
      sandbox.failNext(operation, { kind: 'delay', ms: 150 });
      const started = performance.now();
      const reply = await send[operation]();
      expect(performance.now() - started).toBeGreaterThan(145);
      const usual = { list: { data: expect.any(Array) }, token: { token_type: 'Bearer' } };
      expect([reply.status, await reply.json()]).toEqual([200, expect.objectContaining(usual[operation])]);
    });

    it('reset the connection before any byte', async () => {
      sandbox.failNext(operation, { kind: 'reset' });
      await expect(send[operation]()).rejects.toMatchObject({ cause: { code: 'ECONNRESET' } });
    });
  });

  it.each([
    ['authorize', '/connect/authorize'],
    ['resume', '/connect/authorize/some'],
    ['login', '/connect/login/some'],
    ['userinfo', '/connect/userinfo'],
    ['keys', '/connect/jwks'],
    ['discovery', '/.well-known/openid-configuration'],
    ['other', '/'],
  ] as const)('apply to %s', async (operation, path) => {
    sandbox.failNext(operation, { kind: 'status', status: 503 });
    const statuses = [(await fetch(sandbox.url + path)).status, (await fetch(sandbox.url + path)).status];
    expect(statuses).toEqual([503, expect.any(Number)]);
    expect(statuses[1]).not.toBe(503);
  });

  it('are answered by 500 where one cannot be sent', async () => {
    sandbox.failNext('list', { kind: 'status', status: 503, headers: { 'x-broken': 'a\nb' } });
    expect([await list('acme'), await list('acme')]).toEqual([500, 200]);
  });

  it('are listed by HTTP, also those without an end', async () => {
    const fault: Fault = { kind: 'delay', ms: 1 };
    const match = { operation: ['list', 'lookup'] as const };
    sandbox.failNext(match, fault, Infinity);
    const pending = await fetch(`${sandbox.url}/sandbox/faults`);
    expect(await pending.json()).toEqual([{ match, fault, remaining: null }]);
  });

  const FAULT: Fault = { kind: 'status', status: 418 };
  it('apply the given number of times, the oldest fault first', async () => {
    sandbox.failNext('list', FAULT, 2);
    sandbox.failNext('list', { kind: 'status', status: 429 });
    const statuses = [await list('acme'), await list('acme'), await list('acme'), await list('acme')];
    expect(statuses).toEqual([418, 418, 429, 200]);
  });

  it('apply to one tenant until they are cleared, with Infinity', async () => {
    sandbox.failNext({ operation: ['list', 'token'], tenant: 'globex' }, FAULT, Infinity);
    const globex = sandbox.tenantOptions('globex');
    expect([await list('acme'), (await askToken(globex)).status]).toEqual([200, 418]);
    const mixedUp = { headers: { ...headers, 'x-tenant-id': globex.tenantId } };
    expect((await fetch(eventUrl(sandbox, 'boutique-2026'), mixedUp)).status).toBe(418);
    sandbox.clearFaults();
    expect(await list('globex')).toBe(200);
  });

  it('apply to one grant type', async () => {
    sandbox.failNext({ grantType: 'authorization_code' }, FAULT);
    const acme = sandbox.tenantOptions('acme');
    expect((await askToken(acme)).status).toBe(200);
    expect((await askToken(acme, { grant_type: 'authorization_code' })).status).toBe(418);
  });

  it.each([0, -1, 1.5, Number.NaN])('cannot apply %d times', (times) => {
    expect(() => sandbox.failNext('list', FAULT, times)).toThrow(RangeError);
  });
});
