import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { BalancedCache } from '../../lib/exhibitors/lookups/balanced-cache.js';
import { LookupCache, type LookupSubject } from '../../lib/exhibitors/lookups/lookup-cache.js';
import { checkOptions } from '../../lib/options/check-options.js';
import type { Tenant } from '../../lib/tenants/tenant.js';
import { StoppedClock, TestClock } from '../support/clock.js';
import { registryOf } from '../support/registry.js';

const collectGarbage: () => void = (() => {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc');
})();

const checked = checkOptions({
  tenant: {
    tenantId: 'acme',
    baseUrl: 'https://api.example',
    authUrl: 'https://login.example',
    clientId: 'acme',
    clientSecret: 'acme',
  },
});
const acme = registryOf(checked, new TestClock(0)).peek('default') as Tenant;
const subjectOf = (eventId: string, contactEmail = 'sam@example.com') => ({
  tenant: acme,
  eventId,
  contactEmail,
});
const GENERATION = { id: '', isKnown: true, recheckAt: Infinity };

function cacheOf(limits: { ttl: number; staleIfError: number }) {
  const clock = new StoppedClock();
  const cache = new LookupCache({ max: 100, maxBytes: 1_000_000, maxRecords: 10, ...limits }, clock);
  const keep = (subject: LookupSubject, records: readonly unknown[], time = 0): void => {
    clock.time = time;
    cache.keep(subject, { records, weight: 100 }, Infinity, GENERATION);
  };
  return { clock, cache, keep };
}

describe('answers past their time', () => {
  const limits = { ttl: 1_000, staleIfError: 500 };

  it('leave the memory, though the cache is not full', async () => {
    const { keep } = cacheOf(limits);
    const kept = (event: string, time: number): WeakRef<object> => {
      const records = [{ event }];
      keep(subjectOf(event), records, time);
      return new WeakRef(records);
    };
    const old = kept('old', 0);
    const recent = kept('recent', 11_000);
    kept('new', 12_000);
    await nextTurn();
    collectGarbage();
    expect(old.deref()).toBeUndefined();
    expect(recent.deref()).toBeDefined();
  });

  it('are kept while they may be used because the service fails', () => {
    const { clock, cache, keep } = cacheOf(limits);
    keep(subjectOf('a'), [1]);
    const at = (time: number, which: 'fresh' | 'stale') => {
      clock.time = time;
      return cache[which](subjectOf('a'))?.records;
    };
    expect([at(999, 'fresh'), at(1_000, 'fresh')]).toEqual([[1], undefined]);
    expect([at(1_499, 'stale'), at(1_500, 'stale')]).toEqual([[1], undefined]);
  });
});

describe('forgetting', () => {
  it('finds the lookups of an event and of an address, whatever they contain', () => {
    const text = fc.string({ unit: fc.constantFrom('a', ':', '1', 'é', '@'), minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(text, text, text, text, (eventId, contactEmail, otherEvent, otherEmail) => {
        const { cache, keep } = cacheOf({ ttl: 1_000, staleIfError: 0 });
        const [subject, other] = [subjectOf(eventId, contactEmail), subjectOf(otherEvent, otherEmail)];
        for (const filter of [{ eventId }, { contactEmail }]) {
          keep(subject, [1]);
          keep(other, [2]);
          cache.forget(filter);
          const isSame = 'eventId' in filter ? otherEvent === eventId : otherEmail === contactEmail;
          expect([cache.fresh(subject), cache.fresh(other) === undefined]).toEqual([undefined, isSame]);
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
