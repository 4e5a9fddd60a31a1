/** A client, cluster, sentinel or pool of `redis` 5, as far as the store uses it. */
export interface NodeRedisClient {
  get(key: string): Promise<unknown>;
  set(
    key: string,
    value: string,
    options: { expiration: { type: 'PX'; value: number }; condition?: 'NX' },
  ): Promise<unknown>;
  del(key: string): Promise<unknown>;
}

/** A client or cluster of `ioredis` 5, as far as the store uses it. */
export interface IoredisClient {
  /** State of the connection. `redis` has no such field, which tells the two apart. */
  readonly status: string;
  get(key: string): Promise<unknown>;
  set(key: string, value: string, unit: 'PX', ttl: number): Promise<unknown>;
  set(key: string, value: string, unit: 'PX', ttl: number, condition: 'NX'): Promise<unknown>;
  del(key: string): Promise<unknown>;
}
