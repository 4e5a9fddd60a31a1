import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { LookupCache, type LookupSubject } from '../../lib/exhibitors/lookups/lookup-cache.js';
import { checkOptions } from '../../lib/options/check-options.js';
import type { Tenant } from '../../lib/tenants/tenant.js';
import { StoppedClock, TestClock } from '../support/clock.js';
import { registryOf } from '../support/registry.js';

const collectGarbage: () => void = (() => {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc');
})();

const tenantOptions = {
  tenantId: 'acme',
  baseUrl: 'https://api.example',
  authUrl: 'https://login.example',
  clientId: 'acme',
  clientSecret: 'acme',
};
const checked = checkOptions({
  tenants: { acme: tenantOptions, quiet: { ...tenantOptions, tenantId: 'quiet' } },
  resolveTenant: () => 'acme',
});
const registry = registryOf(checked, new TestClock(0));
const [acme, quiet] = ['acme', 'quiet'].map((key) => registry.peek(key)) as [Tenant, Tenant];
const subjectOf = (eventId: string, contactEmail = 'sam@example.com') => ({
  tenant: acme,
  eventId,
  contactEmail,
});
const GENERATION = { id: '', isUnset: true, isKnown: true, recheckAt: Infinity };

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

describe('an older answer of another process', () => {
  it('replaces no newer one, unless that was invalidated', () => {
    const { clock, cache, keep } = cacheOf({ ttl: 1_000, staleIfError: 5_000 });
    const keepOlder = (weight: number, generation = GENERATION) =>
      cache.keep(subjectOf('a'), { records: ['older'], weight }, -200, generation);
    keep(subjectOf('a'), ['newer']);
    clock.time = 1_100;
    for (const weight of [100, 1_000_000]) {
      keepOlder(weight);
      expect(cache.stale(subjectOf('a'))?.records).toEqual(['newer']);
    }
    keepOlder(100, { ...GENERATION, id: 'later' });
    expect(cache.stale(subjectOf('a'))?.records).toEqual(['older']);
  });
});

describe('a large answer in a full cache', () => {
  it('finds room within a moment, though the entries of other tenants are older', () => {
    const limits = {
      ttl: 60_000,
      staleIfError: 0,
      max: 50_000,
      maxBytes: 128 * 1024 * 1024,
      maxRecords: 1_000,
    };
    const cache = new LookupCache(limits, new StoppedClock());
    const keep = (subject: LookupSubject, weight: number) =>
      cache.keep(subject, { records: [], weight }, Infinity, GENERATION);
    for (let i = 0; i < 50_000; i += 1) {
      keep({ ...subjectOf(`event-${i}`), tenant: i < 20_000 ? quiet : acme }, 2_000);
    }
    const started = performance.now();
    keep(subjectOf('large'), 8_000_000);
    expect(performance.now() - started).toBeLessThan(150);
    expect(cache.fresh(subjectOf('large'))).toBeDefined();
    expect(cache.fresh({ ...subjectOf('event-0'), tenant: quiet })).toBeDefined();
    expect(cache.fresh(subjectOf('event-20000'))).toBeUndefined();
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
