import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Cluster, Redis } from 'ioredis';
import { createCluster } from 'redis';
import { RedisSharedStore } from '../../lib/redis/index.js';
import { readmeStores, ROOT } from '../structure/readme.js';
import { describeWithRedis, RedisServer } from '../support/redis.js';
import { eventually } from '../support/wait.js';

type AnyClient = ConstructorParameters<typeof RedisSharedStore>[0];

/** A client under test. */
interface Connected {
  client: AnyClient;
  store: RedisSharedStore;
  close(): unknown;
}

/** `createStore` of the two snippets of the README. */
async function readmeStore(index: number, folder: string, url: string): Promise<Connected> {
  const file = join(folder, `store-${index}.ts`);
  writeFileSync(file, readmeStores()[index] ?? '');
  const { createStore } = (await import(file)) as {
    createStore(url: string): {
      client: AnyClient & { destroy?(): void; disconnect(): void };
      store: RedisSharedStore;
    };
  };
  const { client, store } = createStore(url);
  return { client, store, close: () => (client.destroy ?? client.disconnect).call(client) };
}

describeWithRedis('RedisSharedStore', (path) => {
  let folder: string;
  let single: RedisServer;
  let node: RedisServer;
  const open: Connected[] = [];
  beforeAll(async () => {
    folder = mkdtempSync(join(ROOT, 'test', '.readme-'));
    [single, node] = await Promise.all([RedisServer.start(path), startCluster()]);
  });
  afterEach(async () => {
    for (const { close } of open.splice(0)) {
      await close();
    }
  });
  afterAll(async () => {
    await Promise.all([single?.stop(), node?.stop()]);
    rmSync(folder, { recursive: true });
  });

  /** A cluster of one node that has all slots. It refuses a command with keys of several slots, as any cluster. */
  async function startCluster(): Promise<RedisServer> {
    const announced = ['--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1'];
    const server = await RedisServer.start(path, announced);
    const redis = new Redis(server.url);
    await redis.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
    await eventually(async () => String(await redis.cluster('INFO')).includes('cluster_state:ok'));
    redis.disconnect();
    return server;
  }

  const CLIENTS: Record<string, () => Promise<Connected>> = {
    'a client of redis': () => readmeStore(0, folder, single.url),
    'a client of ioredis': () => readmeStore(1, folder, single.url),
    'a cluster of redis': async () => {
      const client = createCluster({ rootNodes: [{ url: node.url }] });
      await client.connect();
      return { client, store: new RedisSharedStore(client), close: () => client.destroy() };
    },
    'a cluster of ioredis': async () => {
      const client = new Cluster([node.url]);
      return { client, store: new RedisSharedStore(client), close: () => client.disconnect() };
    },
  };

  describe.each(Object.keys(CLIENTS))('on %s', (name) => {
    async function connect(): Promise<Connected> {
      const connected = await CLIENTS[name]?.();
      if (connected === undefined) {
        throw new Error(`there is no ${name}`);
      }
      open.push(connected);
      await eventually(() =>
        connected.store.get('ready').then(
          () => true,
          () => false,
        ),
      );
      return connected;
    }

    it('stores, replaces and deletes values with their lifetime', async () => {
      const { client, store } = await connect();
      expect(await store.get(`${name}:a`)).toBeUndefined();
      expect(await store.set(`${name}:a`, 'one', { ttl: 60_000 })).toBe(true);
      expect(await store.set(`${name}:a`, 'two', { ttl: 60_000.5 })).toBe(true);
      expect(await store.get(`${name}:a`)).toBe('two');
      await store.delete(`${name}:a`);
      expect(await store.get(`${name}:a`)).toBeUndefined();
      await store.set(`${name}:b`, 'brief', { ttl: 0.2 });
      await eventually(async () => (await store.get(`${name}:b`)) === undefined);
      const other = new RedisSharedStore(client, { prefix: 'other-host:' });
      await other.set(`${name}:c`, 'of the other', { ttl: 60_000 });
      expect(await store.get(`${name}:c`)).toBeUndefined();
      expect(await store.get(`other-host:${name}:c`)).toBe('of the other');
    });

    it('reads several values in their order', async () => {
      const { store } = await connect();
      await store.set(`${name}:f`, 'one', { ttl: 60_000 });
      await store.set(`${name}:g`, 'two', { ttl: 60_000 });
      const keys = [`${name}:g`, `${name}:none`, `${name}:f`];
      expect(await store.getMany(keys)).toEqual(['two', undefined, 'one']);
    });

    it('sets a value only once with ifAbsent, of many at the same time', async () => {
      const { store } = await connect();
      const tries = Array.from({ length: 20 }, (_, index) =>
        store.set(`${name}:d`, String(index), { ttl: 60_000, ifAbsent: true }),
      );
      expect((await Promise.all(tries)).filter(Boolean)).toHaveLength(1);
      expect(await store.set(`${name}:d`, 'again', { ttl: 60_000, ifAbsent: false })).toBe(true);
      await store.delete(`${name}:d`);
      expect(await store.set(`${name}:d`, 'free', { ttl: 60_000, ifAbsent: true })).toBe(true);
    });
  });

  it.each([0, 1])(
    'of the README fails at once while Redis is down, and works again after (%i)',
    async (index) => {
      const server = await RedisServer.start(path);
      try {
        const connected = await readmeStore(index, folder, server.url);
        open.push(connected);
        const { store } = connected;
        const isUp = (): Promise<boolean> => store.set('a', 'b', { ttl: 60_000 }).catch(() => false);
        await eventually(isUp);
        await server.kill();
        await eventually(async () => !(await isUp()));
        // Each command is refused, rather than kept for later.
        const answers = await Promise.allSettled(Array.from({ length: 50 }, () => store.get('a')));
        expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 50 }, () => 'rejected'));
        await server.restart();
        await eventually(isUp);
      } finally {
        await server.stop();
      }
    },
  );

  it('refuses what is not a client', () => {
    for (const wrong of [undefined, null, {}, 'redis://127.0.0.1']) {
      expect(() => new RedisSharedStore(wrong as never)).toThrow(TypeError);
    }
  });
});
