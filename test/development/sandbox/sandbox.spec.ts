/** A sandbox as a whole: its start and end, who may reach it, and its faults. */
import { createServer } from 'node:net';
import { jest } from '@jest/globals';
import { defaultSeed, type Fault } from 'nestjs-exhibitor/testing';
import { createProviderStorage } from '../../../lib/development/sandbox/provider/provider-storage.js';
import { type AnyFault, stall } from '../../support/faults.js';
import { useSandbox } from '../../support/lifetimes.js';
import { openConnections, openRequests, startSandbox } from '../../support/sandbox.js';
import { follow } from '../../support/server.js';
import { Visitor } from '../../support/visitor.js';
import { eventually } from '../../support/wait.js';
import { apiHeaders, askToken, eventUrl } from './rest-client.js';

const sandbox = await useSandbox();
const headers = await apiHeaders(sandbox, 'acme');
beforeEach(() => sandbox.clearRequests());

describe('the lifecycle of a sandbox', () => {
  it('starts on the given port, and reports clearly when it is taken', async () => {
    const taken = await follow(createServer());
    const port = Number(new URL(taken.url).port);
    await expect(startSandbox({ port })).rejects.toThrow(
      `port ${port} is not available: Error: listen EADDRINUSE: address already in use 127.0.0.1:${port}. Choose another by port`,
    );
    await taken.stop();
    const second = await startSandbox({ port });
    expect(second.url).toBe(`http://127.0.0.1:${port}`);
    await second.stop();
  });

  it('leaves its port where its seed cannot be used, and says why', async () => {
    const free = await startSandbox();
    const port = Number(new URL(free.url).port);
    await free.stop();
    const seed = defaultSeed();
    seed.tenants = seed.tenants.map((tenant) => ({ ...tenant, clientId: '' }));
    await expect(startSandbox({ port, seed })).rejects.toThrow(/seed.*client_id/);
    await (await startSandbox({ port })).stop();
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

  it('gives every tenant its own records, the same at each start', () => {
    const { exhibitors, tenants, events } = defaultSeed();
    expect(defaultSeed().exhibitors['globex']).toEqual(exhibitors['globex']);
    const all = tenants.flatMap(({ key }) => events.flatMap(({ id }) => exhibitors[key]?.[id] ?? []));
    expect(new Set(all.map(({ id }) => id)).size).toBe(3 * (7 + 50 + 251 + 1234));
    expect(new Set(exhibitors['acme']?.['world-2026']?.map(({ name }) => name)).size).toBe(1234);
  });
});

describe('the import of oidc-provider', () => {
  const FILE = '../../../lib/development/sandbox/provider/load-provider.js';
  /** A module of its own, as in a process that has not started a sandbox. */
  const freshly = async (): Promise<
    typeof import('../../../lib/development/sandbox/provider/load-provider.js')
  > => {
    jest.resetModules();
    return import(FILE);
  };

  // That it prints nothing, in a process of its own: `test/sample/npm-start.spec.ts`.
  it('leaves console.warn as it was, also where several start at once', async () => {
    const { warn } = console;
    const { loadProvider } = await freshly();
    const loads = [loadProvider(), loadProvider()];
    expect(console.warn).not.toBe(warn);
    await Promise.all(loads);
    expect(console.warn).toBe(warn);
  });

  // What is said where oidc-provider is missing: `test/package/commands.spec.ts`.
  it('fails with the error itself where another package is missing', async () => {
    jest.unstable_mockModule('oidc-provider', () => {
      throw new Error("Cannot find package 'koa' imported from /host/index.js");
    });
    const { loadProvider } = await freshly();
    await expect(loadProvider()).rejects.toThrow(/^Cannot find package 'koa'/);
    jest.unstable_unmockModule('oidc-provider');
  });
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
    'a b',
  ])('are refused on all routes with the Host %j', async (host) => {
    expect(await statuses(host)).toEqual(ROUTES.map(() => 403));
    expect(sandbox.requests).toEqual([]);
  });

  it.each(['LOCALHOST:4010', 'acme.localhost:4010', '127.0.0.1', '127.8.9.10:80', '[::1]:4010'])(
    'are not those with the Host %j',
    async (host) => {
      expect(await statuses(host)).not.toContain(403);
    },
  );

  const form = (size: number): string => `a=${'x'.repeat(size - 2)}`;
  const statusOf = (path: string, body: string | ReadableStream): Promise<number> =>
    fetch(`${sandbox.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body,
      duplex: 'half',
    }).then(
      ({ status }) => status,
      // The connection may be closed before the whole body was sent.
      () => 413,
    );

  // The provider itself takes less.
  it.each(['/', '/api/v1/exhibitor/event/world-2026', '/sandbox/faults'])(
    'send forms of 1 MiB at most to %s',
    async (path) => {
      expect(await statusOf(path, form(MIB))).not.toBe(413);
      expect(await statusOf(path, form(MIB + 1))).toBe(413);
    },
  );

  it('send no more in chunks, without a length', async () => {
    expect(await statusOf('/connect/token', new Blob([form(2 * MIB)]).stream())).toBe(413);
  });

  it('push the oldest requests out of what is kept, 16 MiB', async () => {
    for (let sent = 0; sent < 20; sent += 1) {
      await statusOf(`/api/v1/exhibitor/event/e-${sent}`, form(MIB));
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
  /** The status of a list request of a tenant. */
  const list = async (key: string) =>
    (await fetch(eventUrl(sandbox, 'boutique-2026'), { headers: await apiHeaders(sandbox, key) })).status;

  const json = 'application/json; charset=utf-8';
  const html = '<p>Hi</p>';
  const retryLater = { kind: 'status', status: 503, headers: { 'retry-after': '7' } } as const;
  const FAULTS: [string, Fault, status: number, type: string, body: unknown][] = [
    ['a status with its headers', retryLater, 503, json, expect.stringContaining('"error":"sandbox_fault"')],
    ['HTML with 200', { kind: 'body', body: html, contentType: 'text/html' }, 200, 'text/html', html],
    ['an empty 200', { kind: 'body', body: '' }, 200, json, ''],
  ];

  it.each(FAULTS)('answer %s', async (_what, fault, status, type, body) => {
    sandbox.failNext('list', fault);
    const reply = await fetch(eventUrl(sandbox, 'world-2026'), { headers });
    expect([reply.status, reply.headers.get('content-type')]).toEqual([status, type]);
    expect(reply.headers.get('retry-after')).toBe(fault.kind === 'status' ? '7' : null);
    expect(await reply.text()).toEqual(body);
    expect(sandbox.requests.at(-1)).toMatchObject({ operation: 'list', fault: fault.kind });
  });

  // The REST API and the provider send their replies in ways of their own.
  it.each<['list' | 'token', () => Promise<Response>, usual: object]>([
    ['list', () => fetch(eventUrl(sandbox, 'world-2026'), { headers }), { data: expect.any(Array) }],
    ['token', () => askToken(sandbox.tenantOptions('acme')), { token_type: 'Bearer' }],
  ])('on %s answer late with the normal reply, or reset the connection', async (operation, send, usual) => {
    sandbox.failNext(operation, { kind: 'delay', ms: 150 });
    sandbox.failNext(operation, { kind: 'reset' });
    const started = performance.now();
    const reply = await send();
    expect(performance.now() - started).toBeGreaterThan(145);
    expect([reply.status, await reply.json()]).toEqual([200, expect.objectContaining(usual)]);
    await expect(send()).rejects.toMatchObject({ cause: { code: 'ECONNRESET' } });
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

  const FAULT: Fault = { kind: 'status', status: 418 };
  it('apply the given number of times, the oldest fault first', async () => {
    sandbox.failNext('list', FAULT, 2);
    sandbox.failNext('list', { kind: 'status', status: 429 });
    const statuses = [await list('acme'), await list('acme'), await list('acme'), await list('acme')];
    expect(statuses).toEqual([418, 418, 429, 200]);
  });

  it('apply to one tenant until they are cleared, with Infinity', async () => {
    const match = { operation: ['list', 'token'], tenant: 'globex' } as const;
    sandbox.failNext(match, FAULT, Infinity);
    const pending = await fetch(`${sandbox.url}/sandbox/faults`);
    expect(await pending.json()).toEqual([{ match, fault: FAULT, remaining: null }]);
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
