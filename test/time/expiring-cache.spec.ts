import { describe, expect, it } from '@jest/globals';
import { createCache } from '../../lib/time/expiring-cache.js';
import { StoppedClock } from '../support/clock.js';

describe('a cache', () => {
  it('ends an entry by our clock, to the millisecond, also one that was set at time 0', () => {
    const clock = new StoppedClock();
    const cache = createCache<string>(clock, { max: 10 });
    cache.set('a', 'first', { ttl: 100 });
    clock.time = 100;
    expect(cache.get('a')).toBe('first');
    clock.time = 101;
    expect(cache.get('a')).toBeUndefined();
    cache.set('a', 'second', { ttl: 100 });
    clock.time = 202;
    expect(cache.get('a')).toBeUndefined();
  });

  it('keeps an entry without a ttl until others push it out, the least recently used first', () => {
    const clock = new StoppedClock();
    const cache = createCache<number>(clock, { max: 2 });
    cache.set('a', 1).set('b', 2);
    clock.time = 1e12;
    cache.get('a');
    cache.set('c', 3);
    expect([cache.get('a'), cache.get('b'), cache.get('c')]).toEqual([1, undefined, 3]);
  });

  it('is bounded by size where entries have one; one that is larger than the cache is not kept', () => {
    const cache = createCache<number>(new StoppedClock(), { maxSize: 10 });
    cache.set('a', 1, { size: 6 }).set('b', 2, { size: 5 }).set('c', 3, { size: 11 });
    expect([cache.get('a'), cache.get('b'), cache.get('c')]).toEqual([undefined, 2, undefined]);
  });
});
