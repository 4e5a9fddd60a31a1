/** `nestjs-exhibitor/redis`: the shared store on Redis. */
export { RedisSharedStore, type RedisSharedStoreOptions } from './redis-shared-store.js';
export type { IoredisClient, NodeRedisClient } from './redis-clients.interface.js';
