import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { BalancedCache } from '../../lib/exhibitors/lookups/balanced-cache.js';
import { LookupCache, lookupKey } from '../../lib/exhibitors/lookups/lookup-cache.js';
import { checkOptions } from '../../lib/options/check-options.js';
import type { Tenant } from '../../lib/tenants/tenant.js';
import { TestClock } from '../support/clock.js';
import { registryOf } from '../support/registry.js';

const collectGarbage: () => void = (() => {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc');
})();

describe('answers past their time', () => {
  const settings = { ttl: 1_000, max: 100, staleIfError: 500, maxBytes: 1_000_000, maxRecords: 10 };

  it('leave the memory, though the cache is not full', async () => {
    const cache = new LookupCache(settings);
    const keep = (key: string, now: number): WeakRef<object> => {
      const records = [{ key }];
      cache.keep(key, 'acme', { records, weight: 100 }, now);
      return new WeakRef(records);
    };
    const old = keep('old', 0);
    const recent = keep('recent', 11_000);
    keep('new', 12_000);
    await nextTurn();
    collectGarbage();
    expect(old.deref()).toBeUndefined();
    expect(recent.deref()).toBeDefined();
  });

  it('are kept while they may be used because the service fails', () => {
    const cache = new LookupCache(settings);
    cache.keep('a', 'acme', { records: [1], weight: 1 }, 0);
    const [fresh, stale] = [
      (now: number) => cache.fresh('a', now)?.records,
      (now: number) => cache.stale('a', now)?.records,
    ];
    expect([fresh(999), fresh(1_000)]).toEqual([[1], undefined]);
    expect([stale(1_499), stale(1_500)]).toEqual([[1], undefined]);
  });
});

describe('forgetting', () => {
  const checked = checkOptions({
    tenant: {
      tenantId: 'acme',
      baseUrl: 'https://api.example',
      authUrl: 'https://login.example',
      clientId: 'acme',
      clientSecret: 'acme',
    },
  });
  const tenant = registryOf(checked, new TestClock(0)).peek('default') as Tenant;

  it('finds the lookups of an event and of an address, whatever they contain', () => {
    const text = fc.string({ unit: fc.constantFrom('a', ':', '1', 'é', '@'), minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(text, text, text, text, (eventId, contactEmail, otherEvent, otherEmail) => {
        const cache = new LookupCache({
          ttl: 1_000,
          max: 9,
          staleIfError: 0,
          maxBytes: 99_999,
          maxRecords: 9,
        });
        const [key, other] = [
          lookupKey({ tenant, eventId, contactEmail }),
          lookupKey({ tenant, eventId: otherEvent, contactEmail: otherEmail }),
        ];
        for (const filter of [{ eventId }, { contactEmail }]) {
          cache.keep(key, 'acme', { records: [1], weight: 1 }, 0);
          cache.keep(other, 'acme', { records: [2], weight: 1 }, 0);
          cache.forget(filter);
          const isSame = 'eventId' in filter ? otherEvent === eventId : otherEmail === contactEmail;
          expect([cache.fresh(key, 0), cache.fresh(other, 0) === undefined]).toEqual([undefined, isSame]);
        }
      }),
    );
  });
});

describe('a cache that tenants share', () => {
  const writes = fc.array(
    fc.record({
      tenant: fc.constantFrom('a', 'b', 'c', 'd'),
      key: fc.constantFrom('1', '2', '3', '4', '5', '6'),
      weight: fc.integer({ min: 1, max: 25 }),
    }),
    { maxLength: 200 },
  );

  it('never exceeds its limits, and takes nothing from a tenant below its share', () => {
    fc.assert(
      fc.property(writes, (all) => {
        const cache = new BalancedCache<{ tenant: string; weight: number }>({ max: 12, maxWeight: 100 });
        const held = new Map<string, Map<string, number>>();
        for (const { tenant, key, weight } of all) {
          const others = [...held].filter(([name]) => name !== tenant);
          const before = others.map(([name, entries]) => [name, new Map(entries)] as const);
          cache.set(`${tenant}${key}`, { tenant, weight });
          held.set(tenant, (held.get(tenant) ?? new Map()).set(key, weight));
          for (const [name, entries] of held) {
            for (const known of entries.keys()) {
              if (cache.get(`${name}${known}`) === undefined) {
                entries.delete(known);
              }
            }
          }
          const weights = [...held.values()].flatMap((entries) => [...entries.values()]);
          expect(weights.length).toBeLessThanOrEqual(12);
          expect(weights.reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(100);
          for (const [name, entries] of before) {
            const used = [...entries.values()].reduce((sum, one) => sum + one, 0);
            if (entries.size <= 3 && used <= 25) {
              expect(held.get(name)).toEqual(entries);
            }
          }
        }
      }),
    );
  });
});
