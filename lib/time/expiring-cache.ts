import { LRUCache } from 'lru-cache';
import type { Clock } from './clock.js';

/** What a cache holds at most: `max` entries, and `maxSize`, the sum of the sizes given to `set`, of which each is at least 1. */
type CacheLimit = { max: number; maxSize?: number } | { maxSize: number };

/** A bounded cache; the least recently used entries go first. A `ttl` given to `set` is in ms, by our {@link Clock}. */
export type ExpiringCache<V extends {}> = LRUCache<string, V>;

/**
 * Creates a cache. `max` is allocated at once (100,000: 4.3 MB), so one cache serves all tenants.
 *
 * - A `ttl` of 0 means "for ever": do not call `set` then.
 * - lru-cache takes an entry that was set at time 0 for one without an end, so its clock is one millisecond ahead of ours.
 */
export function createCache<V extends {}>(clock: Clock, limit: CacheLimit): ExpiringCache<V> {
  return new LRUCache<string, V>({ ...limit, ttlResolution: 0, perf: { now: () => clock.now() + 1 } });
}
