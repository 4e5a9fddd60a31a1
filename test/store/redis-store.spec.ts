import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { EventEmitter } from 'node:events';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Cluster, Redis } from 'ioredis';
import { createClientPool, createCluster, createSentinel } from 'redis';
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
  let sentinel: RedisServer;
  const open: Connected[] = [];
  beforeAll(async () => {
    folder = mkdtempSync(join(ROOT, 'test', '.readme-'));
    [single, node] = await Promise.all([RedisServer.start(path), startCluster()]);
    sentinel = await RedisServer.startSentinel(path, single);
  });
  afterEach(async () => {
    for (const { close } of open.splice(0)) {
      await close();
    }
  });
  afterAll(async () => {
    await Promise.all([single?.stop(), node?.stop(), sentinel?.stop()]);
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

  // Settings that the README recommends.
  const socket = { connectTimeout: 1_000, reconnectStrategy: 100 };
  const ioredis = { enableOfflineQueue: false, maxRetriesPerRequest: 1, retryStrategy: () => 100 };

  const CLIENTS: Record<string, () => Promise<Connected>> = {
    'a client of redis': () => readmeStore(0, folder, single.url),
    'a client of ioredis': () => readmeStore(1, folder, single.url),
    'a pool of redis': () => {
      const client = createClientPool({ url: single.url, disableOfflineQueue: true, socket });
      return connected(client, () => client.close());
    },
    'a cluster of redis': () => {
      const defaults = { disableOfflineQueue: true, socket };
      const client = createCluster({ rootNodes: [{ url: node.url }], defaults });
      return connected(client, () => client.destroy());
    },
    'a cluster of ioredis': () => {
      // Without disconnectTimeout a timer outlives the test by 2 s.
      const redisOptions = { maxRetriesPerRequest: 1, disconnectTimeout: 10 };
      const client = new Cluster([node.url], { enableOfflineQueue: false, redisOptions });
      return connected(client, () => client.disconnect());
    },
    'a sentinel of redis': () => {
      const sentinelRootNodes = [{ host: '127.0.0.1', port: sentinel.port }];
      const client = createSentinel({ name: 'main', sentinelRootNodes, nodeClientOptions: { socket } });
      return connected(client, () => client.destroy());
    },
    'a sentinel of ioredis': () => {
      const sentinels = [{ host: '127.0.0.1', port: sentinel.port }];
      const client = new Redis({ name: 'main', sentinels, ...ioredis });
      return connected(client, () => client.disconnect());
    },
  };

  async function connect(name: string): Promise<Connected> {
    const client = await CLIENTS[name]?.();
    if (client === undefined) {
      throw new Error(`there is no ${name}`);
    }
    open.push(client);
    await eventually(() => isUp(client));
    return client;
  }

  const isUp = ({ store }: Connected): Promise<boolean> =>
    store.set('up', 'yes', { ttl: 60_000 }).catch(() => false);

  describe.each(Object.keys(CLIENTS))('on %s', (name) => {
    it('stores, replaces and deletes values with their lifetime', async () => {
      const { client, store } = await connect(name);
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

    it('sets a value only once with ifAbsent, of many at the same time', async () => {
      const { store } = await connect(name);
      const tries = Array.from({ length: 20 }, (_, index) =>
        store.set(`${name}:d`, String(index), { ttl: 60_000, ifAbsent: true }),
      );
      expect((await Promise.all(tries)).filter(Boolean)).toHaveLength(1);
      expect(await store.set(`${name}:d`, 'again', { ttl: 60_000, ifAbsent: false })).toBe(true);
      await store.delete(`${name}:d`);
      expect(await store.set(`${name}:d`, 'free', { ttl: 60_000, ifAbsent: true })).toBe(true);
    });
  });

  it('refuses what is not a client', () => {
    for (const wrong of [undefined, null, {}, 'redis://127.0.0.1']) {
      expect(() => new RedisSharedStore(wrong as never)).toThrow(TypeError);
    }
  });

  it('fails at once while Redis is down, unless the client keeps commands, and works again after', async () => {
    const clients: (Connected & { name: string })[] = [];
    for (const name of Object.keys(CLIENTS)) {
      clients.push({ ...(await connect(name)), name });
    }
    await Promise.all([single.kill(), node.kill()]);
    // A sentinel of `redis` keeps commands until there is a primary.
    const failing = clients.filter(({ name }) => name !== 'a sentinel of redis');
    const kept = clients.filter((one) => !failing.includes(one)).map(({ store }) => store.get('a'));
    await eventually(async () => !(await Promise.all(failing.map(isUp))).includes(true));
    // Each command is refused, not kept for later.
    const many = failing.flatMap(({ store }) => Array.from({ length: 50 }, () => store.get('a')));
    expect((await Promise.allSettled(many)).filter(({ status }) => status !== 'rejected')).toEqual([]);
    await single.restart();
    expect(await Promise.all(kept)).toEqual([undefined]);
    // A cluster needs two seconds to accept its nodes again.
    const others = clients.filter(({ name }) => !name.includes('cluster'));
    await eventually(async () => !(await Promise.all(others.map(isUp))).includes(false));
  });
});

/** Connects a client of `redis`; one of `ioredis` connects by itself. */
async function connected(
  client: AnyClient & EventEmitter & { connect(): Promise<unknown> },
  close: () => unknown,
): Promise<Connected> {
  client.on('error', () => {});
  if (!('status' in client)) {
    await client.connect();
  }
  return { client, store: new RedisSharedStore(client), close };
}
