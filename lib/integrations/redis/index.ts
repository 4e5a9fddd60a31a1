/** `nestjs-exhibitor/redis`: the shared store on Redis. */
export {
  RedisSharedStore,
  type IoredisClient,
  type NodeRedisClient,
  type RedisSharedStoreOptions,
} from './redis-shared-store.js';
