import { createServer } from 'node:net';
import { defaultSeed, ExhibitorSandbox } from 'nestjs-exhibitor/testing';
import { loadProvider } from '../../lib/testing/sandbox/provider/load-provider.js';
import type { TenantOptions } from '../../lib/options/tenant-options.interface.js';
import { apiHeaders, eventUrl, tokenOf } from './rest-client.js';
import { follow } from '../support/server.js';
import { eventually, pause } from '../support/wait.js';
import { drip, stall, type AnyFault } from '../support/faults.js';

describe('the lifecycle of a sandbox', () => {
  it('starts on a free port of loopback, several at once', async () => {
    const sandboxes = await Promise.all([ExhibitorSandbox.start(), ExhibitorSandbox.start()]);
    const [first, second] = sandboxes.map(({ url }) => url);

    expect(first).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(second).not.toBe(first);
    await Promise.all(sandboxes.map((sandbox) => sandbox.stop()));
  });

  it('starts on the given port, and reports clearly when it is taken', async () => {
    const taken = await follow(createServer());
    const port = Number(new URL(taken.url).port);

    await expect(ExhibitorSandbox.start({ port })).rejects.toThrow(
      `ExhibitorSandbox: port ${port} on 127.0.0.1 is already in use. Choose another by port (--port), or 0 for any free one`,
    );
    await taken.stop();
    const sandbox = await ExhibitorSandbox.start({ port });
    expect(sandbox.url).toBe(`http://127.0.0.1:${port}`);
    await sandbox.stop();
  });

  it('refuses to start in production', async () => {
    const before = process.env['NODE_ENV'];
    process.env['NODE_ENV'] = 'production';
    try {
      await expect(ExhibitorSandbox.start()).rejects.toThrow(/does not start with NODE_ENV=production/);
    } finally {
      process.env['NODE_ENV'] = before;
    }
  });

  it('names the command that installs a missing oidc-provider, and only for that error', async () => {
    const missing = Object.assign(
      new Error("Cannot find package 'oidc-provider' imported from /host/index.js"),
      {
        code: 'ERR_MODULE_NOT_FOUND',
      },
    );
    const other = Object.assign(new Error("Cannot find package 'koa' imported from /host/index.js"), {
      code: 'ERR_MODULE_NOT_FOUND',
    });

    await expect(loadProvider(() => Promise.reject(missing))).rejects.toThrow(
      /npm install --save-dev oidc-provider@9/,
    );
    await expect(loadProvider(() => Promise.reject(other))).rejects.toBe(other);
  });

  it('leaves console.warn as it was, also where several start at once', async () => {
    const { warn } = console;
    const slowly = async (): Promise<never> => {
      await pause(10 * Math.random());
      throw new Error('not today');
    };
    const starts = [slowly, slowly, undefined].map((load) => ExhibitorSandbox.start({ load }));
    const [, , sandbox] = await Promise.allSettled(starts);
    expect(console.warn).toBe(warn);
    await (sandbox?.status === 'fulfilled' ? sandbox.value.stop() : undefined);
  });

  it('prints nothing on the console', async () => {
    const said: unknown[] = [];
    const { warn, info, error } = console;
    Object.assign(console, { warn: add, info: add, error: add });
    function add(...message: unknown[]) {
      said.push(message);
    }
    try {
      const sandbox = await ExhibitorSandbox.start();
      await tokenOf(sandbox.tenantOptions('acme'));
      await sandbox.stop();
    } finally {
      Object.assign(console, { warn, info, error });
    }

    expect(said).toEqual([]);
  });

  it('stops with open connections, stalls, delays and drips', async () => {
    const sandbox = await ExhibitorSandbox.start();
    const headers = await apiHeaders(sandbox, 'acme');
    const faults: AnyFault[] = [
      stall('before-headers'),
      stall('mid-body'),
      { kind: 'delay', ms: 600_000 },
      drip(60_000),
    ];
    faults.forEach((fault) => sandbox.failNext('list', fault));
    const replies = faults.map(async () =>
      (await fetch(eventUrl(sandbox, 'world-2026'), { headers })).text(),
    );
    const outcomes = Promise.allSettled(replies);
    await eventually(() => sandbox.openRequests === faults.length);
    expect(sandbox.openConnections).toBeGreaterThanOrEqual(faults.length);
    await sandbox.stop();
    await sandbox.stop();

    expect((await outcomes).map(({ status }) => status)).toEqual(faults.map(() => 'rejected'));
    expect([sandbox.openRequests, sandbox.openConnections]).toEqual([0, 0]);
    await expect(fetch(sandbox.url)).rejects.toThrow('fetch failed');
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
    const sandbox = await ExhibitorSandbox.start({ seed });
    const headers = await apiHeaders(sandbox, 'umbrella');
    const statuses = await Promise.all(
      ['boutique-2026', 'world-2026'].map(
        async (eventId) => (await fetch(eventUrl(sandbox, eventId), { headers })).status,
      ),
    );
    await sandbox.stop();

    expect(statuses).toEqual([200, 404]);
  });

  it('gives every tenant its own records, the same at each start', () => {
    expect(defaultSeed()).toEqual(defaultSeed());
    const { exhibitors, tenants, events } = defaultSeed();
    const all = tenants.flatMap(({ key }) => events.flatMap(({ id }) => exhibitors[key]?.[id] ?? []));

    expect(new Set(all.map(({ id }) => id)).size).toBe(3 * (7 + 50 + 251 + 1234));
    expect(new Set(exhibitors['acme']?.['world-2026']?.map(({ name }) => name)).size).toBe(1234);
  });

  it('returns tenant options for the module, and names its tenants', async () => {
    const sandbox = await ExhibitorSandbox.start();
    const options: TenantOptions = sandbox.tenantOptions('acme');

    expect(options).toMatchObject({ baseUrl: sandbox.url, authUrl: sandbox.url, clientId: 'acme-api' });
    expect(sandbox.tenantOptions('acme', { publicClient: true }).login).not.toHaveProperty('clientSecret');
    expect(() => sandbox.tenantOptions('nobody')).toThrow('no tenant "nobody"; it has acme, globex, initech');
    await sandbox.stop();
  });
});
