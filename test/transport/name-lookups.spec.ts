import { getDefaultAutoSelectFamily, setDefaultAutoSelectFamily } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Sender, tenantAt } from './transport-bench.js';
import { NameServers } from '../support/name-servers.js';
import { type TestServer, sendJson, startServer } from '../support/server.js';
import { eventually } from '../support/wait.js';

/** Far less than a silent name blocks its thread. */
const SOON = 1_500;

let names: NameServers;
let server: TestServer;
let sender: Sender;

beforeEach(async () => {
  server = await startServer((_request, response) => sendJson(response, [], 200, { connection: 'close' }));
  names = NameServers.start();
  const tenants = Object.fromEntries(['acme', 'hostile'].map((key) => [key, tenantAt(server.url)]));
  sender = Sender.withTenants(tenants, { attempts: 1, attemptTimeout: 8_000 });
});
afterEach(async () => {
  await sender.close();
  names.stop();
  await server.stop();
});

/** A request to a name, on a connection of its own. */
const ask = (name: string, tenant = 'acme') =>
  sender.send({ url: server.url.replace('127.0.0.1', name) }, { tenant });

async function millisecondsOf(work: Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work;
  return performance.now() - began;
}

describe('a name whose servers do not answer', () => {
  it('blocks one thread, however many requests wait for it: other names, localhost and addresses do not wait', async () => {
    for (let request = 0; request < 20; request += 1) {
      ask('silent.test', 'hostile').catch(() => undefined);
    }
    await eventually(() => names.lookups.length === 1);
    expect(await millisecondsOf(ask('localhost'))).toBeLessThan(SOON);
    expect(await millisecondsOf(ask('127.0.0.1'))).toBeLessThan(SOON);
    const all = Array.from({ length: 10 }, (_, index) => ask(`name-${index}.test`));
    expect(await millisecondsOf(Promise.all(all))).toBeLessThan(SOON);
    expect(names.mostBlocked).toBe(1);
  });
});

describe('the addresses of a name', () => {
  it('are looked up once by requests that come together', async () => {
    const together = () => Promise.all(Array.from({ length: 10 }, () => ask('name.test')));
    await together();
    expect(names.lookups).toHaveLength(1);
    await together();
    expect(names.lookups).toHaveLength(2);
    expect(server.connected).toBe(20);
  });

  it('are those of the operating system, in its order, and each is tried', async () => {
    names.system.set('name.test', [
      { address: '127.0.0.2', family: 4 },
      { address: '127.0.0.1', family: 4 },
    ]);
    await expect(ask('name.test')).resolves.toMatchObject({ status: 200 });
  });

  it('may be one, where the host turned off autoSelectFamily', async () => {
    const before = getDefaultAutoSelectFamily();
    setDefaultAutoSelectFamily(false);
    try {
      await expect(ask('name.test')).resolves.toMatchObject({ status: 200 });
      await expect(ask('localhost')).resolves.toMatchObject({ status: 200 });
    } finally {
      setDefaultAutoSelectFamily(before);
    }
  });

  it('come from the real functions of Node', async () => {
    names.stop();
    await expect(ask('localhost')).resolves.toMatchObject({ status: 200 });
    await expect(ask('nothing.invalid')).rejects.toMatchObject({ code: 'service_unavailable' });
  });
});
