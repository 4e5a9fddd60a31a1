import { LRUCache } from 'lru-cache';
import type { Clock } from './clock.js';

/** What a cache holds at most: `max` entries, and `maxSize`, the sum of the sizes given to `set`, of which each is at least 1. */
type CacheLimit = { max: number; maxSize?: number } | { maxSize: number };

/** A limit of entries alone. lru-cache fills lists of `max` entries at once: for 100,000 that takes 11 ms and 4.3 MB. */
const asSize = (max: number) => ({ maxSize: max, sizeCalculation: () => 1 });

/** A bounded cache; the least recently used entries go first. A `ttl` given to `set` is in ms, by our {@link Clock}. */
export type ExpiringCache<V extends {}> = LRUCache<string, V>;

/**
 * Creates a cache. With both limits, `max` entries are allocated at once.
 *
 * - A `ttl` of 0 means "for ever": do not call `set` then.
 * - lru-cache takes an entry that was set at time 0 for one without an end, so its clock is one millisecond ahead of ours.
 */
export function createCache<V extends {}>(clock: Clock, limit: CacheLimit): ExpiringCache<V> {
  const size = 'maxSize' in limit ? limit : asSize(limit.max);
  return new LRUCache<string, V>({ ...size, ttlResolution: 0, perf: { now: () => clock.now() + 1 } });
}
