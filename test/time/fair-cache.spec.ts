import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { FairCache } from '../../lib/time/fair-cache.js';
import { StoppedClock } from '../support/clock.js';

interface Written {
  tenant: string;
  key: string;
  weight: number;
}

const TENANTS = ['a', 'b', 'c', 'd'];
const MAX = 100;
const steps = fc.array(
  fc.record({
    action: fc.constantFrom('set', 'set', 'set', 'get', 'delete'),
    tenant: fc.constantFrom(...TENANTS),
    key: fc.constantFrom('1', '2', '3', '4', '5', '6'),
    weight: fc.integer({ min: 1, max: 25 }),
  }),
  { maxLength: 200 },
);

const sumOf = (entries: readonly Written[]) => entries.reduce((sum, { weight }) => sum + weight, 0);

/** What the cache should hold, the least recently used first, found without any index. */
class Model {
  held: Written[] = [];
  #writers: string[] = [];

  use({ tenant, key }: Written): Written | undefined {
    const found = this.held.find((one) => one.tenant === tenant && one.key === key);
    this.delete(found);
    this.held.push(...(found === undefined ? [] : [found]));
    return found;
  }

  set(entry: Written): void {
    this.delete(this.use(entry));
    this.held.push(entry);
    this.#writers = [...this.#writers.filter((one) => one !== entry.tenant), entry.tenant];
    while (sumOf(this.held) > MAX) {
      const [largest] = this.#writers.toSorted((a, b) => sumOf(this.of(b)) - sumOf(this.of(a)));
      this.delete(this.of(largest)[0]);
    }
  }

  of(tenant: string | undefined): Written[] {
    return this.held.filter((one) => one.tenant === tenant);
  }

  delete(entry: Written | undefined): void {
    this.held = this.held.filter((one) => one !== entry);
  }
}

describe('a cache that tenants share', () => {
  it('removes the least recently used entry of the tenant that holds most, the one idle for longest among equals', () => {
    fc.assert(
      fc.property(steps, (all) => {
        const cache = new FairCache<Written>(new StoppedClock(), MAX);
        const model = new Model();
        for (const { action, ...entry } of all) {
          const name = entry.tenant + entry.key;
          if (action === 'set') {
            cache.set(name, entry, entry);
            model.set(entry);
          } else if (action === 'get') {
            expect(cache.get(name)).toBe(model.use(entry));
          } else {
            cache.delete(name);
            model.delete(model.use(entry));
          }
        }
        // `deleteWhere` shows all entries and, for `false`, removes none.
        const held: Written[] = [];
        cache.deleteWhere((one) => held.push(one) < 0);
        expect(new Set(held)).toEqual(new Set(model.held));
      }),
    );
  });

  it('takes nothing from a tenant below an equal share', () => {
    fc.assert(
      fc.property(steps, (all) => {
        const cache = new FairCache<Written>(new StoppedClock(), MAX);
        const victim = ['1', '2', '3', '4', '5'].map((key) => ({ tenant: 'victim', key, weight: 4 }));
        for (const entry of victim) {
          cache.set(entry.tenant + entry.key, entry, entry);
        }
        for (const entry of all) {
          cache.set(entry.tenant + entry.key, entry, entry);
        }
        for (const entry of victim) {
          expect(cache.get(entry.tenant + entry.key)).toBe(entry);
        }
      }),
    );
  });

  it('tells its values of each tenant in turn, and the one that was told last may be deleted', () => {
    const cache = new FairCache<string>(new StoppedClock(), MAX);
    for (const key of ['a1', 'a2', 'a3', 'b1', 'c1', 'c2']) {
      cache.set(key, key, { tenant: key.charAt(0) });
    }
    const told: string[] = [];
    for (const value of cache.roundRobin()) {
      told.push(value);
      cache.delete(value);
    }
    expect([told, cache.size]).toEqual([['a1', 'b1', 'c1', 'a2', 'c2', 'a3'], 0]);
  });

  it('keeps an entry for its ttl, also where another tenant wrote it again', () => {
    const clock = new StoppedClock();
    const cache = new FairCache<string>(clock, MAX);
    cache.set('key', 'first', { tenant: 'a', weight: MAX });
    cache.set('key', 'second', { tenant: 'b', weight: MAX, ttl: 100 });
    clock.time = 99;
    expect(cache.get('key')).toBe('second');
    clock.time = 100;
    expect(cache.get('key')).toBeUndefined();
  });

  it('removes expired entries though it is not full and nobody reads them, but none without a lifetime or with a longer one', () => {
    const clock = new StoppedClock();
    const cache = new FairCache<true>(clock, 100_000);
    for (let key = 0; key < 5_000; key += 1) {
      cache.set(`short-${key}`, true, { ttl: 1_000 });
    }
    cache.set('for ever', true);
    cache.set('long', true, { ttl: 300_000 });
    clock.time = 120_000;
    cache.set('new', true);
    expect([cache.size, cache.peek('for ever'), cache.peek('long')]).toEqual([3, true, true]);
  });

  it('takes a peek for no use of an entry', () => {
    const cache = new FairCache<string>(new StoppedClock(), 2);
    cache.set('first', 'peeked at');
    cache.set('second', 'idle');
    expect(cache.peek('first')).toBe('peeked at');
    cache.set('third', 'new');
    expect([cache.get('first'), cache.get('second')]).toEqual([undefined, 'idle']);
  });

  it('removes nothing for an entry that is heavier than all of the room', () => {
    const cache = new FairCache<string>(new StoppedClock(), MAX);
    cache.set('key', 'fits', { tenant: 'a', weight: MAX });
    cache.set('other', 'heavy', { tenant: 'a', weight: MAX + 1 });
    expect([cache.get('key'), cache.get('other')]).toEqual(['fits', undefined]);
    cache.set('key', 'heavy', { tenant: 'a', weight: MAX + 1 });
    expect(cache.get('key')).toBeUndefined();
  });

  it('finds what to remove among 50,000 tenants within a moment', () => {
    const cache = new FairCache<number>(new StoppedClock(), 50_000);
    const fill = (from: number, to: number) => {
      for (let i = from; i < to; i += 1) {
        cache.set(`${i}`, i, { tenant: `${i}` });
      }
    };
    fill(0, 50_000);
    const started = performance.now();
    fill(50_000, 60_000);
    expect(performance.now() - started).toBeLessThan(400);
    // Equals lose in the order in which they wrote.
    expect([9_999, 10_000].map((i) => cache.get(`${i}`))).toEqual([undefined, 10_000]);
  });
});
