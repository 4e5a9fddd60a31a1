import { describe, expect, it } from '@jest/globals';
import { ExpiringCache } from '../../lib/time/expiring-cache.js';
import { StoppedClock } from '../support/clock.js';

/** lru-cache takes the time 0 for no time. */
function startedClock(): StoppedClock {
  const clock = new StoppedClock();
  clock.time = 1;
  return clock;
}

describe('an expiring cache', () => {
  it('removes expired entries though it is not full and nobody reads them', () => {
    const clock = startedClock();
    const cache = new ExpiringCache<true>(clock, { max: 100_000, ttl: 1_000 });
    for (let key = 0; key < 5_000; key += 1) {
      cache.set(`unknown-${key}`, true);
    }
    clock.time = 120_000;
    cache.set('new', true);
    expect(cache.size).toBe(1);
  });

  it('keeps entries that have no lifetime, or a longer one', () => {
    const clock = startedClock();
    const cache = new ExpiringCache<true>(clock, { max: 10 });
    cache.set('for ever', true);
    cache.set('long', true, { ttl: 300_000 });
    cache.set('short', true, { ttl: 1_000 });
    clock.time = 120_000;
    cache.set('new', true);
    expect(new Set(cache.keys())).toEqual(new Set(['for ever', 'long', 'new']));
  });
});
