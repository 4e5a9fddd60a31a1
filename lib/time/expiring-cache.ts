import { LRUCache } from 'lru-cache';
import type { Clock } from './clock.js';

/** Expired entries are searched for at most this often, in ms. */
const PURGE_EVERY = 60_000;

/** Limits of an {@link ExpiringCache}. */
export interface CacheLimits {
  /**
   * Largest sum of the sizes of all entries. Beyond it, the least recently used entries are removed. The size of an entry is 1,
   * so that this is their number, unless `set` is given another, such as its bytes.
   */
  max: number;
  /** Lifetime of an entry in milliseconds, unless `set` is given another. */
  ttl?: number;
}

/**
 * A bounded cache whose entries expire by the injected clock. lru-cache removes an expired entry when it is next read, which
 * may be never; here a write removes all expired entries, once a minute.
 */
export class ExpiringCache<V extends object | true> extends LRUCache<string, V> {
  readonly #clock: Clock;
  #purgedAt: number;

  /** With `max` instead of `maxSize`, lru-cache would allocate memory for all entries at once. */
  constructor(clock: Clock, { max, ttl = 0 }: CacheLimits) {
    super({ maxSize: max, sizeCalculation: () => 1, ttl, ttlResolution: 0, perf: clock });
    this.#clock = clock;
    this.#purgedAt = clock.now();
  }

  override set(...entry: Parameters<LRUCache<string, V>['set']>): this {
    const now = this.#clock.now();
    if (now - this.#purgedAt >= PURGE_EVERY) {
      this.#purgedAt = now;
      this.purgeStale();
    }
    return super.set(...entry);
  }
}
