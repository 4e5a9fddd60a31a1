import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { EventEmitter } from 'node:events';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import * as ioredis6 from 'ioredis';
import * as ioredis5 from 'ioredis5';
import * as redis6 from 'redis';
import * as redis5 from 'redis5';
import {
  RedisSharedStore,
  type IoredisClient,
  type NodeRedisClient,
} from '../../lib/integrations/redis/index.js';
import { storeSnippets, ROOT } from '../structure/readme.js';
import { describeWithRedis, RedisServer } from '../support/redis.js';
import { eventually } from '../support/wait.js';

type AnyClient = NodeRedisClient | IoredisClient;

/** What the tests use of `redis` and of `ioredis`, of both majors. */
interface NodeRedis {
  createClient(settings: object): NodeClient & { destroy(): unknown };
  createClientPool(settings: object): NodeClient & { close(): unknown };
  createCluster(settings: object): NodeClient & { destroy(): unknown };
  createSentinel(settings: object): NodeClient & { destroy(): unknown };
}
type NodeClient = NodeRedisClient & EventEmitter & { connect(): Promise<unknown> };

interface Ioredis {
  Redis: new (settings: object) => IoredisClient & EventEmitter & { disconnect(): void };
  Cluster: new (nodes: string[], settings: object) => IoredisClient & EventEmitter & { disconnect(): void };
}

/** A client under test. */
interface Connected {
  client: AnyClient;
  store: RedisSharedStore;
  close(): unknown;
}

/** `createStore` of the two snippets of docs/scaling.md. Without a major they import the newest. */
async function documentedStore(
  index: number,
  major: '5' | '',
  folder: string,
  url: string,
): Promise<Connected> {
  const file = join(folder, `store-${index}${major}.ts`);
  writeFileSync(file, storeSnippets(major)[index] ?? '');
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
  const open = new Map<string, Connected>();
  beforeAll(async () => {
    folder = mkdtempSync(join(ROOT, 'test', '.readme-'));
    [single, node] = await Promise.all([RedisServer.start(path), startCluster()]);
    sentinel = await RedisServer.startSentinel(path, single);
    for (const [name, create] of Object.entries(CLIENTS)) {
      const client = await create();
      open.set(name, client);
      await eventually(() => isUp(client));
    }
  });
  afterAll(async () => {
    await Promise.all([...open.values()].map(({ close }) => close()));
    await Promise.all([single?.stop(), node?.stop(), sentinel?.stop()]);
    rmSync(folder, { recursive: true });
  });

  /** A cluster of one node that has all slots. It refuses a command with keys of several slots, as any cluster. */
  async function startCluster(): Promise<RedisServer> {
    const announced = ['--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1'];
    const server = await RedisServer.start(path, announced);
    const redis = new ioredis6.Redis(server.url);
    await redis.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
    await eventually(async () => String(await redis.cluster('INFO')).includes('cluster_state:ok'));
    redis.disconnect();
    return server;
  }

  // Settings that docs/scaling.md recommends.
  const socket = { connectTimeout: 1_000, reconnectStrategy: 100 };
  const settings = { enableOfflineQueue: false, maxRetriesPerRequest: 1, retryStrategy: () => 100 };

  const CLIENTS: Record<string, () => Promise<Connected>> = {
    ...clientsOf('redis 5', '5', redis5),
    ...clientsOf('redis 6', '', redis6),
    ...ioredisClientsOf('ioredis 5', '5', ioredis5),
    ...ioredisClientsOf('ioredis 6', '', ioredis6),
  };

  function clientsOf(name: string, major: '5' | '', redis: NodeRedis): typeof CLIENTS {
    const usual = { disableOfflineQueue: true, socket };
    return {
      [`a client of ${name}`]: () => documentedStore(0, major, folder, single.url),
      [`a client of ${name} that answers Buffers`]: async () => {
        const commandOptions = { typeMapping: BUFFERS };
        const client = redis.createClient({ url: single.url, ...usual, commandOptions });
        return connected(client, () => client.destroy());
      },
      [`a pool of ${name}`]: () => {
        const client = redis.createClientPool({ url: single.url, ...usual });
        return connected(client, () => client.close());
      },
      [`a cluster of ${name}`]: () => {
        const client = redis.createCluster({ rootNodes: [{ url: node.url }], defaults: usual });
        return connected(client, () => client.destroy());
      },
      [`a sentinel of ${name}`]: () => {
        const sentinelRootNodes = [{ host: '127.0.0.1', port: sentinel.port }];
        const nodeClientOptions = { socket };
        const client = redis.createSentinel({ name: 'main', sentinelRootNodes, nodeClientOptions });
        return connected(client, () => client.destroy());
      },
    };
  }

  /** Every text is a Buffer, also the reply `OK`. */
  const { BLOB_STRING, SIMPLE_STRING } = redis6.RESP_TYPES;
  const BUFFERS = { [BLOB_STRING]: Buffer, [SIMPLE_STRING]: Buffer };

  function ioredisClientsOf(name: string, major: '5' | '', { Cluster, Redis }: Ioredis): typeof CLIENTS {
    return {
      [`a client of ${name}`]: () => documentedStore(1, major, folder, single.url),
      [`a cluster of ${name}`]: () => {
        // Without disconnectTimeout a timer outlives the test by 2 s.
        const redisOptions = { maxRetriesPerRequest: 1, disconnectTimeout: 10 };
        const client = new Cluster([node.url], { enableOfflineQueue: false, redisOptions });
        return connected(client, () => client.disconnect());
      },
      [`a sentinel of ${name}`]: () => {
        const sentinels = [{ host: '127.0.0.1', port: sentinel.port }];
        const client = new Redis({ name: 'main', sentinels, ...settings });
        return connected(client, () => client.disconnect());
      },
    };
  }

  const isUp = ({ store }: Connected): Promise<boolean> =>
    store.set('up', 'yes', { ttl: 60_000 }).catch(() => false);

  it.each(Object.keys(CLIENTS))('works on %s', async (name) => {
    const { client, store } = open.get(name) as Connected;
    const other = new RedisSharedStore(client, { prefix: 'other-host:' });
    const [ttl, one, two] = [60_000, `${name}:1`, `${name}:2`];
    expect(await store.get(one)).toBeUndefined();
    expect(await store.set(one, 'one', { ttl })).toBe(true);
    expect(await store.set(one, 'two', { ttl: ttl + 0.5 })).toBe(true);
    expect([await store.get(one), await other.get(one)]).toEqual(['two', undefined]);
    await store.set(`${name}:ü`, 'ü', { ttl });
    expect(await store.get(`${name}:ü`)).toBe('ü');
    await other.set(one, 'of the other', { ttl });
    expect(await store.get(`other-host:${one}`)).toBe('of the other');
    await other.delete(one);
    expect([await store.get(one), await other.get(one)]).toEqual(['two', undefined]);
    await store.set(two, 'brief', { ttl: 0.2 });
    await eventually(async () => (await store.get(two)) === undefined);

    // With ifAbsent a value is set once, of many at the same time.
    const tries = Array.from({ length: 20 }, () => store.set(two, 'taken', { ttl, ifAbsent: true }));
    expect((await Promise.all(tries)).filter(Boolean)).toHaveLength(1);
    expect(await store.set(two, 'again', { ttl, ifAbsent: false })).toBe(true);
    await store.delete(two);
    expect(await store.set(two, 'free', { ttl, ifAbsent: true })).toBe(true);
  });

  it('fails where a client answers neither texts nor Buffers', async () => {
    const client = { get: async () => 1, set: async () => 1, del: async () => 1 };
    const store = new RedisSharedStore(client);
    await expect(store.get('a')).rejects.toThrow(TypeError);
    await expect(store.set('a', 'b', { ttl: 1 })).rejects.toThrow(TypeError);
  });

  it('refuses what is not a client', () => {
    for (const wrong of [undefined, null, {}, 'redis://127.0.0.1']) {
      expect(() => new RedisSharedStore(wrong as never)).toThrow(TypeError);
    }
  });

  it('fails at once while Redis is down, unless the client keeps commands, and works again after', async () => {
    const clients = [...open].map(([name, client]) => ({ ...client, name }));
    await Promise.all([single.kill(), node.kill()]);
    // A sentinel of `redis` keeps commands until there is a primary.
    const failing = clients.filter(({ name }) => !name.startsWith('a sentinel of redis'));
    const kept = clients.filter((one) => !failing.includes(one)).map(({ store }) => store.get('a'));
    await eventually(async () => !(await Promise.all(failing.map(isUp))).includes(true));
    // Each command is refused, not kept for later.
    const many = failing.flatMap(({ store }) => Array.from({ length: 50 }, () => store.get('a')));
    expect((await Promise.allSettled(many)).filter(({ status }) => status !== 'rejected')).toEqual([]);
    await single.restart();
    expect(await Promise.all(kept)).toEqual([undefined, undefined]);
    // A cluster needs two seconds to accept its nodes again.
    const others = clients.filter(({ name }) => !name.includes('cluster'));
    await eventually(async () => !(await Promise.all(others.map(isUp))).includes(false));
  });
});

/** Connects a client of `redis`; one of `ioredis` connects by itself. */
async function connected(
  client: AnyClient & EventEmitter & { connect?(): Promise<unknown> },
  close: () => unknown,
): Promise<Connected> {
  client.on('error', () => {});
  if (!('status' in client)) {
    await client.connect?.();
  }
  return { client, store: new RedisSharedStore(client), close };
}
