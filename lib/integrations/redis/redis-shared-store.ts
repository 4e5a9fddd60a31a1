import { errorMonitor } from 'node:events';
import type { SharedStore } from '../../index.js';

interface ConnectionEvents {
  /** Tells of connection errors, which are not those of commands: "the client is offline". */
  on?(event: string | symbol, listener: (error: unknown) => void): unknown;
}

/** A client, cluster, sentinel or pool of `redis` 5 or 6, as far as the store uses it. */
export interface NodeRedisClient extends ConnectionEvents {
  get(key: string): Promise<unknown>;
  /** In place of `get`, so that a giant value is not read whole. */
  getRange?(key: string, start: number, end: number): Promise<unknown>;
  set(
    key: string,
    value: string,
    options: { expiration: { type: 'PX'; value: number }; condition?: 'NX' },
  ): Promise<unknown>;
  del(key: string): Promise<unknown>;
}

/** A client or cluster of `ioredis` 5 or 6, as far as the store uses it. */
export interface IoredisClient extends ConnectionEvents {
  /** State of the connection. `redis` has no such field, which tells the two apart. */
  readonly status: string;
  get(key: string): Promise<unknown>;
  /** In place of `get`, so that a giant value is not read whole. */
  getrange?(key: string, start: number, end: number): Promise<unknown>;
  set(key: string, value: string, unit: 'PX', ttl: number): Promise<unknown>;
  set(key: string, value: string, unit: 'PX', ttl: number, condition: 'NX'): Promise<unknown>;
  del(key: string): Promise<unknown>;
}

/** Last byte that is read of a value. The module ignores values over 1 MiB, which anybody who can write to Redis can leave there. */
const LAST_BYTE = 1_048_576;

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
  /** The last error of the connection, until a command succeeds. */
  #connectionError: unknown;

  constructor(client: NodeRedisClient | IoredisClient, { prefix = '' }: RedisSharedStoreOptions = {}) {
    for (const command of ['get', 'set', 'del'] as const) {
      if (typeof client?.[command] !== 'function') {
        throw new TypeError('RedisSharedStore needs a client of `redis` or `ioredis`, from version 5');
      }
    }
    this.#client = client;
    this.#prefix = prefix;
    // No listener of `error`, which would change what the client does where its host has none.
    client.on?.(errorMonitor, (error) => (this.#connectionError = error));
  }

  async get(key: string): Promise<string | undefined> {
    const text = textOf(await this.#run(readStart(this.#client, this.#prefix + key)));
    // GETRANGE answers an empty string where there is no value.
    return text === '' ? undefined : text;
  }

  async set(key: string, value: string, options: { ttl: number; ifAbsent?: boolean }): Promise<boolean> {
    // Redis takes whole milliseconds from 1.
    const ttl = Math.max(1, Math.ceil(options.ttl));
    const isNew = options.ifAbsent === true;
    const reply = await this.#run(setWith(this.#client, this.#prefix + key, value, ttl, isNew));
    return textOf(reply) === 'OK';
  }

  async delete(key: string): Promise<void> {
    await this.#run(this.#client.del(this.#prefix + key));
  }

  /** @throws {Error} of the client. Its cause is what ended the connection */
  async #run(command: Promise<unknown>): Promise<unknown> {
    try {
      const reply = await command;
      this.#connectionError = undefined;
      return reply;
    } catch (error) {
      throw this.#connectionError === undefined
        ? error
        : new Error('Redis cannot be reached', { cause: this.#connectionError });
    }
  }
}

/** A client may be set to answer Buffers, by a type mapping or options of its own. */
function textOf(reply: unknown): string | undefined {
  const text = reply instanceof Uint8Array ? Buffer.from(reply).toString() : reply;
  return typeof text === 'string' ? text : undefined;
}

function readStart(client: NodeRedisClient | IoredisClient, key: string): Promise<unknown> {
  const ranged =
    'status' in client ? client.getrange?.(key, 0, LAST_BYTE) : client.getRange?.(key, 0, LAST_BYTE);
  return ranged ?? client.get(key);
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
