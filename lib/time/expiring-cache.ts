import { LRUCache } from 'lru-cache';
import type { Clock } from './clock.js';

/** A bounded cache whose entries expire by the injected clock. */
export type ExpiringCache<V extends object | true> = LRUCache<string, V>;

/** Limits of an {@link ExpiringCache}. */
export interface CacheLimits {
  /** Number of entries. Beyond it, the least recently used entry is removed. */
  max: number;
  /** Lifetime of an entry in milliseconds, unless `set` is given another. */
  ttl?: number;
}

/** Creates a cache. With `max` instead of `maxSize`, lru-cache would allocate memory for all entries at once. */
export function expiringCache<V extends object | true>(
  clock: Clock,
  { max, ttl = 0 }: CacheLimits,
): ExpiringCache<V> {
  return new LRUCache<string, V>({
    maxSize: max,
    sizeCalculation: () => 1,
    ttl,
    ttlResolution: 0,
    perf: clock,
  });
}
