import { LRUCache } from 'lru-cache';
import type { Clock } from './clock.js';

/** What a cache holds at most: `max` entries, or `maxSize`, the sum of the sizes given to `set`, of which each is at least 1, or both. */
type CacheLimit = { max: number; maxSize?: number } | { maxSize: number };

/** A bounded cache; the least recently used entries go first. A `ttl` given to `set` is in ms, by our {@link Clock}. */
export type ExpiringCache<V extends {}> = LRUCache<string, V>;

/**
 * Creates a cache.
 *
 * - lru-cache allocates its `max` at once: 4.3 MB and 5 ms for 100,000. So entries of size 1 are counted instead, where `max` is
 *   the only limit.
 * - A `ttl` of 0 means "for ever": do not call `set` then.
 */
export function createCache<V extends {}>(clock: Clock, limit: CacheLimit): ExpiringCache<V> {
  const bounds = 'maxSize' in limit ? limit : { maxSize: limit.max, sizeCalculation: () => 1 };
  return new LRUCache<string, V>({ ...bounds, ttlResolution: 0, perf: clock });
}
