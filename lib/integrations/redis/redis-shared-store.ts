import type { SharedStore } from '../../index.js';

/** A client, cluster, sentinel or pool of `redis` 5 or 6, as far as the store uses it. */
export interface NodeRedisClient {
  get(key: string): Promise<unknown>;
  set(
    key: string,
    value: string,
    options: { expiration: { type: 'PX'; value: number }; condition?: 'NX' },
  ): Promise<unknown>;
  del(key: string): Promise<unknown>;
}

/** A client or cluster of `ioredis` 5 or 6, as far as the store uses it. */
export interface IoredisClient {
  /** State of the connection. `redis` has no such field, which tells the two apart. */
  readonly status: string;
  get(key: string): Promise<unknown>;
  set(key: string, value: string, unit: 'PX', ttl: number): Promise<unknown>;
  set(key: string, value: string, unit: 'PX', ttl: number, condition: 'NX'): Promise<unknown>;
  del(key: string): Promise<unknown>;
}

/** Options of {@link RedisSharedStore}. */
export interface RedisSharedStoreOptions {
  /** Before every key, for hosts that share one Redis. Default: none. Keys start with `nestjs-exhibitor:`. */
  prefix?: string;
}

/**
 * A {@link SharedStore} on Redis or Valkey, for the option `store`. It takes a client of `redis` 5 or 6 (`createClient`,
 * `createCluster`, `createSentinel`, `createClientPool`) or of `ioredis` 5 or 6 (`Redis`, also with `sentinels`, and
 * `Cluster`). Every command touches one key, so a cluster needs no hash tags.
 *
 * The host connects and closes the client. Configure it so that commands fail at once during an outage (no offline queue);
 * a failure is then a cache miss and a warning, not a failed call. Redis needs `maxmemory-policy noeviction`, and reads
 * must go to primaries: a logout that was evicted or not yet replicated would not be seen.
 *
 * @example
 * const client = createClient({ url, disableOfflineQueue: true });
 * client.on('error', () => {});
 * void client.connect();
 * ExhibitorModule.forRoot({ tenant, secrets, store: new RedisSharedStore(client) });
 *
 * @throws {TypeError} where the client is none of these
 */
export class RedisSharedStore implements SharedStore {
  readonly #client: NodeRedisClient | IoredisClient;
  readonly #prefix: string;

  constructor(client: NodeRedisClient | IoredisClient, { prefix = '' }: RedisSharedStoreOptions = {}) {
    for (const command of ['get', 'set', 'del'] as const) {
      if (typeof client?.[command] !== 'function') {
        throw new TypeError('RedisSharedStore needs a client of `redis` or `ioredis`, from version 5');
      }
    }
    this.#client = client;
    this.#prefix = prefix;
  }

  async get(key: string): Promise<string | undefined> {
    const value = await this.#client.get(this.#prefix + key);
    return value === null ? undefined : textOf(value);
  }

  async set(key: string, value: string, options: { ttl: number; ifAbsent?: boolean }): Promise<boolean> {
    // Redis takes whole milliseconds from 1.
    const ttl = Math.max(1, Math.ceil(options.ttl));
    const isNew = options.ifAbsent === true;
    const reply = await setWith(this.#client, this.#prefix + key, value, ttl, isNew);
    return reply !== null && textOf(reply) === 'OK';
  }

  async delete(key: string): Promise<void> {
    await this.#client.del(this.#prefix + key);
  }
}

/** A client may be set to answer Buffers, by a type mapping or options of its own. */
function textOf(reply: unknown): string {
  if (typeof reply === 'string' || Buffer.isBuffer(reply)) {
    return reply.toString();
  }
  throw new TypeError('the client of Redis answers neither texts nor Buffers');
}

function setWith(
  client: NodeRedisClient | IoredisClient,
  key: string,
  value: string,
  ttl: number,
  ifAbsent: boolean,
): Promise<unknown> {
  if ('status' in client) {
    return ifAbsent ? client.set(key, value, 'PX', ttl, 'NX') : client.set(key, value, 'PX', ttl);
  }
  const expiration = { type: 'PX', value: ttl } as const;
  return client.set(key, value, ifAbsent ? { expiration, condition: 'NX' } : { expiration });
}
