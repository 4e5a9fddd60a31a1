import { getDefaultAutoSelectFamily, setDefaultAutoSelectFamily } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import type { HttpOptions } from '../../lib/index.js';
import { Sender, tenantAt } from './transport-bench.js';
import { TestClock } from '../support/clock.js';
import { NameServers } from '../support/name-servers.js';
import { type TestServer, sendJson, startServer } from '../support/server.js';
import { eventually, pause } from '../support/wait.js';

const HALF_MINUTE = 31_000;
const DAY = 24 * 3_600_000;
/** Far less than a silent name blocks its thread. */
const SOON = 1_500;

let names: NameServers;
let server: TestServer;
let sender: Sender;
let clock: TestClock;

beforeEach(async () => {
  server = await startServer((_request, response) => sendJson(response, [], 200, { connection: 'close' }));
  names = await NameServers.start();
  clock = new TestClock();
  const tenants = Object.fromEntries(['acme', 'hostile', 'third'].map((key) => [key, tenantAt(server.url)]));
  sender = Sender.withTenants(tenants, { attempts: 1, attemptTimeout: 8_000 }, clock);
});
afterEach(async () => {
  await sender.close();
  names.stop();
  await server.stop();
});

/** A request to a name, on a connection of its own. */
const ask = (name: string, tenant = 'acme') =>
  sender.send({ url: server.url.replace('127.0.0.1', name) }, { tenant });

/** Requests of a hostile tenant to names whose servers are silent. Their failures are ignored. */
async function askSilentNames(count: number, tenant = 'hostile'): Promise<void> {
  for (let index = 0; index < count; index += 1) {
    ask(`silent-${index}.${tenant}.test`, tenant).catch(() => undefined);
  }
  await eventually(() => names.lookups.some((name) => name.startsWith('silent')));
}

async function millisecondsOf(work: Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work;
  return performance.now() - began;
}

describe('a name whose servers do not answer', () => {
  it('blocks one thread: names that are answered, localhost and addresses wait for none', async () => {
    await askSilentNames(20);
    expect(await millisecondsOf(ask('localhost'))).toBeLessThan(SOON);
    expect(await millisecondsOf(ask('127.0.0.1'))).toBeLessThan(SOON);
    const all = Array.from({ length: 10 }, (_, index) => ask(`name-${index}.test`));
    expect(await millisecondsOf(Promise.all(all))).toBeLessThan(SOON);
    expect(names.mostBlocked).toBe(1);
  });

  it('waits with those of its tenant: tenants have their turns', async () => {
    names.silence = 300;
    names.unanswered.add('hosts-file.test');
    await askSilentNames(10);
    await ask('hosts-file.test');
    expect(names.lookups.slice(0, 2)).toEqual(['silent-0.hostile.test', 'hosts-file.test']);
  });

  it('delays no request that other tenants share', async () => {
    await askSilentNames(3);
    const url = server.url.replace('127.0.0.1', 'keys.test');
    const shared = sender.send({ operation: 'keys', url, payer: 'keys' }, { tenant: 'hostile' });
    expect(await millisecondsOf(shared)).toBeLessThan(SOON);
  });

  it('has a turn of each tenant that waits for it', async () => {
    names.silence = 300;
    names.unanswered.add('hosts-file.test');
    await askSilentNames(3);
    const asked = ask('hosts-file.test', 'hostile');
    await pause(0);
    await Promise.all([asked, ask('hosts-file.test', 'acme')]);
    expect(names.lookups.slice(0, 2)).toEqual(['silent-0.hostile.test', 'hosts-file.test']);
  });

  it('does not delay the end of the process: what waits is dropped with the module', async () => {
    names.silence = 100;
    await askSilentNames(5);
    await sender.close();
    await pause(300);
    expect(names.lookups).toHaveLength(1);
  });

  it.each(['before', 'to c-ares'])(
    'blocks one thread with others of its tenant, also where they were answered %s',
    async (when) => {
      const all = Array.from({ length: 20 }, (_, index) => `name-${index}.test`);
      if (when === 'before') {
        await Promise.all(all.map((name) => ask(name, 'hostile')));
        clock.ahead += HALF_MINUTE;
      }
      for (const name of all) {
        names.system.set(name, 'silent');
        ask(name, 'hostile').catch(() => undefined);
      }
      await pause(200);
      expect(await millisecondsOf(ask('other.test'))).toBeLessThan(SOON);
      expect(names.mostBlocked).toBe(1);
    },
  );

  it('holds up no name that another tenant asks for as well', async () => {
    await askSilentNames(1);
    ask('api.test', 'hostile').catch(() => undefined);
    await pause(100);
    expect(await millisecondsOf(ask('api.test'))).toBeLessThan(SOON);
  });

  it('blocks no thread beside its own once that one is free', async () => {
    names.silence = 300;
    await askSilentNames(1);
    names.silence = 5_000;
    names.system.set('answered-to-c-ares.test', 'silent');
    ask('answered-to-c-ares.test', 'third').catch(() => undefined);
    await eventually(() => names.lookups.includes('answered-to-c-ares.test'));
    names.unanswered.add('hosts-file.test');
    expect(await millisecondsOf(ask('hosts-file.test'))).toBeLessThan(SOON);
  });

  it('waits there too where it was answered before, but slowly', async () => {
    await ask('name.test');
    names.silence = 100;
    names.system.set('name.test', 'silent');
    clock.ahead += HALF_MINUTE;
    const slow = ask('name.test');
    await eventually(() => names.mostBlocked === 1);
    clock.ahead += SOON;
    await slow;
    names.silence = 3_000;
    await askSilentNames(1);
    clock.ahead += HALF_MINUTE;
    await ask('name.test');
    expect(names.mostBlocked).toBe(1);
  });
});

describe('the addresses of a name', () => {
  it('are looked up once by requests that come together, and again after 30 s', async () => {
    const together = () => Promise.all(Array.from({ length: 10 }, () => ask('name.test')));
    await together();
    await together();
    expect(names.lookups).toHaveLength(1);
    clock.ahead += HALF_MINUTE;
    await together();
    expect(names.lookups).toHaveLength(2);
    expect(server.connected).toBe(30);
  });

  it('are used for a day while new look-ups fail', async () => {
    await ask('name.test');
    names.system.set('name.test', 'unknown');
    for (const ahead of [HALF_MINUTE, DAY - 1_000]) {
      clock.ahead = ahead;
      await ask('name.test');
    }
    expect(names.lookups).toHaveLength(3);
    clock.ahead = DAY + 1_000;
    await expect(ask('name.test')).rejects.toMatchObject({ code: 'service_unavailable' });
  });

  it('are used while a new look-up is slow, which is waited for at most once', async () => {
    await ask('name.test');
    names.system.set('name.test', 'silent');
    clock.ahead = HALF_MINUTE;
    expect(await millisecondsOf(ask('name.test'))).toBeLessThan(SOON);
    expect(await millisecondsOf(ask('name.test'))).toBeLessThan(500);
    expect(names.lookups).toHaveLength(2);
  });

  it('are replaced by new ones after 30 s', async () => {
    await ask('name.test');
    names.system.set('name.test', [{ address: '127.0.0.2', family: 4 }]);
    await ask('name.test');
    clock.ahead = HALF_MINUTE;
    await expect(ask('name.test')).rejects.toMatchObject({ code: 'service_unavailable' });
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

  it('are not kept for the dispatcher of a host', async () => {
    const dispatcher: HttpOptions['dispatcher'] = ({ Agent }) => new Agent();
    await sender.close();
    sender = Sender.withTenants({ acme: tenantAt(server.url, { dispatcher }) });
    await ask('name.test');
    await ask('name.test');
    expect(names.lookups).toHaveLength(2);
  });

  it('come from the real functions of Node', async () => {
    names.stop();
    await expect(ask('localhost')).resolves.toMatchObject({ status: 200 });
    await expect(ask('nothing.invalid')).rejects.toMatchObject({ code: 'service_unavailable' });
  });
});
