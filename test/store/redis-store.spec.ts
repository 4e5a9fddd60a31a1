import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { EventEmitter } from 'node:events';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import * as ioredis6 from 'ioredis';
import * as ioredis5 from 'ioredis5';
import * as redis6 from 'redis';
import * as redis5 from 'redis5';
import { RedisSharedStore, type IoredisClient, type NodeRedisClient } from '../../lib/redis/index.js';
import { checkOptions } from '../../lib/options/check-options.js';
import { storeDown } from '../../lib/problems/host-problems.js';
import { Sealer } from '../../lib/store/sealer.service.js';
import { ProblemLog } from '../../lib/problems/problem-log.service.js';
import { SharedValues } from '../../lib/store/shared-values.service.js';
import { Clock } from '../../lib/time/clock.js';
import { storeSnippets, ROOT } from '../structure/readme.js';
import { describeWithRedis, RedisServer } from '../support/redis.js';
import { eventually } from '../support/wait.js';

type AnyClient = NodeRedisClient | IoredisClient;

/** What the tests use of `redis`, of both majors. */
interface NodeRedis {
  createClientPool(settings: NodeSettings): NodeClient & { close(): unknown };
  createCluster(settings: { rootNodes: NodeSettings[]; defaults: NodeSettings }): NodeClient & {
    destroy(): unknown;
  };
  createSentinel(settings: {
    name: string;
    sentinelRootNodes: Address[];
    nodeClientOptions: NodeSettings;
  }): NodeClient & { destroy(): unknown };
}

interface NodeSettings {
  url?: string;
  disableOfflineQueue?: boolean;
  socket?: { connectTimeout: number; reconnectStrategy: number };
}

type NodeClient = NodeRedisClient & EventEmitter & { connect(): Promise<unknown> };

/** What the tests use of `ioredis`, of both majors. */
interface Ioredis {
  Redis: new (settings: IoredisSettings) => IoredisClient & EventEmitter & { disconnect(): void };
  Cluster: new (
    nodes: string[],
    settings: { enableOfflineQueue: boolean; redisOptions: IoredisSettings },
  ) => IoredisClient & EventEmitter & { disconnect(): void };
}

interface IoredisSettings {
  port?: number;
  name?: string;
  sentinels?: Address[];
  commandTimeout?: number;
  disconnectTimeout?: number;
  enableOfflineQueue?: boolean;
  maxRetriesPerRequest?: number;
  retryStrategy?: () => number;
}

interface Address {
  host: string;
  port: number;
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
    ...clientsOf('redis 5', () => documentedStore(0, '5', folder, single.url), redis5),
    ...clientsOf('redis 6', () => documentedStore(0, '', folder, single.url), redis6),
    ...ioredisClientsOf('ioredis 5', () => documentedStore(1, '5', folder, single.url), ioredis5),
    ...ioredisClientsOf('ioredis 6', () => documentedStore(1, '', folder, single.url), ioredis6),
  };

  function clientsOf(
    name: string,
    readme: () => Promise<Connected>,
    redis: NodeRedis,
  ): Record<string, () => Promise<Connected>> {
    return {
      [`a client of ${name}`]: readme,
      [`a pool of ${name}`]: () => {
        const client = redis.createClientPool({ url: single.url, disableOfflineQueue: true, socket });
        return connected(client, () => client.close());
      },
      [`a cluster of ${name}`]: () => {
        const defaults = { disableOfflineQueue: true, socket };
        const client = redis.createCluster({ rootNodes: [{ url: node.url }], defaults });
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

  function ioredisClientsOf(
    name: string,
    readme: () => Promise<Connected>,
    { Cluster, Redis }: Ioredis,
  ): Record<string, () => Promise<Connected>> {
    return {
      [`a client of ${name}`]: readme,
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

  function clientOf(name: string): Connected {
    const client = open.get(name);
    if (client === undefined) {
      throw new Error(`there is no ${name}`);
    }
    return client;
  }

  const isUp = ({ store }: Connected): Promise<boolean> =>
    store.set('up', 'yes', { ttl: 60_000 }).catch(() => false);

  it.each(Object.keys(CLIENTS))('works on %s', async (name) => {
    const { client, store } = clientOf(name);
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
    await store.set(`${name}:c`, 'of this one', { ttl: 60_000 });
    await other.delete(`${name}:c`);
    expect(await other.get(`${name}:c`)).toBeUndefined();
    expect(await store.get(`${name}:c`)).toBe('of this one');

    // Of a giant value it reads no more than the start.
    await store.set(`${name}:giant`, 'a'.repeat(1_100_000), { ttl: 60_000 });
    expect((await store.get(`${name}:giant`))?.length).toBe(1_048_577);

    // With ifAbsent a value is set once, of many at the same time.
    const tries = Array.from({ length: 20 }, (_, index) =>
      store.set(`${name}:d`, String(index), { ttl: 60_000, ifAbsent: true }),
    );
    expect((await Promise.all(tries)).filter(Boolean)).toHaveLength(1);
    expect(await store.set(`${name}:d`, 'again', { ttl: 60_000, ifAbsent: false })).toBe(true);
    await store.delete(`${name}:d`);
    expect(await store.set(`${name}:d`, 'free', { ttl: 60_000, ifAbsent: true })).toBe(true);
  });

  it.each([
    ['ioredis 5', ioredis5],
    ['ioredis 6', ioredis6],
  ])('is down, and nothing else, where a command of %s times out', async (_name, { Redis }: Ioredis) => {
    const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => {});
    const client = new Redis({ port: single.port, ...settings, commandTimeout: 200 });
    const { store } = await connected(client, () => client.disconnect());
    await eventually(() => store.set('slow', 'kept', { ttl: 60_000 }).catch(() => false));
    const options = checkOptions({
      tenant: {
        tenantId: 'acme',
        baseUrl: 'https://api.example',
        authUrl: 'https://login.example',
        clientId: 'acme-api',
        clientSecret: 'secret',
      },
      secrets: ['a secret of the tests of Redis, 32+ characters'],
      store,
    });
    const clock = new Clock();
    const log = new ProblemLog(options, clock);
    const values = new SharedValues(options, new Sealer(options, clock), clock, log);
    single.freeze();
    const began = performance.now();
    const answers: unknown[] = [];
    for (let call = 0; call < 10; call++) {
      answers.push(await values.read('token', 'slow'));
    }
    single.thaw();
    expect(answers).toEqual(answers.map(() => null));
    // The first call waits for the timeout; then the store rests, so that not every call waits.
    expect(performance.now() - began).toBeLessThan(600);
    expect(warn.mock.calls).toEqual([[expect.stringContaining('the shared store does not answer')]]);
    warn.mockRestore();
    // Replies that come after their timeout belong to no later command.
    expect(await store.get('slow')).toBe('kept');
    client.disconnect();
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
    // "The client is offline" does not tell an operator what to look at.
    for (const { store } of clients.filter(({ name }) => name.startsWith('a client'))) {
      await eventually(async () => {
        const error: unknown = await store.get('a').catch((failure: unknown) => failure);
        return storeDown(error).includes(`(ECONNREFUSED 127.0.0.1:${single.port})`);
      });
    }
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
