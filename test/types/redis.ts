/** Clients of `redis` and `ioredis`, of both majors, as a host creates them. */
import * as ioredis6 from 'ioredis';
import * as ioredis5 from 'ioredis5';
import { RedisSharedStore } from 'nestjs-exhibitor/redis';
import * as redis6 from 'redis';
import * as redis5 from 'redis5';

const client5: redis5.RedisClientType = redis5.createClient();
const client6: redis6.RedisClientType = redis6.createClient();

export const STORES = [
  new RedisSharedStore(client5),
  new RedisSharedStore(redis5.createClient({ RESP: 3 })),
  new RedisSharedStore(redis5.createClientPool()),
  new RedisSharedStore(redis5.createCluster({ rootNodes: [] })),
  new RedisSharedStore(redis5.createSentinel({ name: 'main', sentinelRootNodes: [] })),

  new RedisSharedStore(client6),
  new RedisSharedStore(redis6.createClient({ RESP: 2 })),
  new RedisSharedStore(redis6.createClientPool()),
  new RedisSharedStore(redis6.createCluster({ rootNodes: [] })),
  new RedisSharedStore(redis6.createSentinel({ name: 'main', sentinelRootNodes: [] })),

  new RedisSharedStore(new ioredis5.Redis({ name: 'main', sentinels: [] })),
  new RedisSharedStore(new ioredis5.Cluster([])),

  new RedisSharedStore(new ioredis6.Redis({ name: 'main', sentinels: [], replyMapping: 'resp3' })),
  new RedisSharedStore(new ioredis6.Cluster([])),

  // @ts-expect-error replies of a client are promises
  new RedisSharedStore({ get: () => 'value', set: () => 'OK', del: () => 1 }),
];
