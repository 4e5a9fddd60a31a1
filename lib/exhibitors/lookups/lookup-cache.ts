import type { ExhibitorSettings } from '../../options/exhibitor-settings.js';
import type { Generation } from '../../store/generations.service.js';
import type { Tenant } from '../../tenants/tenant.js';
import type { Clock } from '../../time/clock.js';
import { FairCache } from '../../time/fair-cache.js';
import type { LookupFilter } from '../call-options.interface.js';

export interface LookupSubject {
  tenant: Tenant;
  eventId: string;
  contactEmail: string;
}

/** A lookup by the key of its tenant: cache entries must not keep a tenant in memory. */
export interface LookupName extends Omit<LookupSubject, 'tenant'> {
  tenant: string;
}

export interface LookupAnswer {
  /** Frozen. */
  records: readonly unknown[];
  /** Estimated bytes of heap. */
  weight: number;
}

export interface CachedLookup extends LookupName, LookupAnswer {
  /** {@link Clock.now} until which the answer is fresh. */
  readonly freshUntil: number;
  readonly generation: string;
  /** {@link Clock.now} from which the generation must be compared again. */
  recheckAt: number;
}

/** Bytes of an entry without records and names. */
const ENTRY_WEIGHT = 512;

/** Answers of more than this share of `maxBytes` are not kept: one of them would push out many others. */
const LARGEST_SHARE = 1 / 16;

/** Limits of a cache that keeps nothing, for `lookupCache: false`. */
const NOTHING = { ttl: 0, max: 0, staleIfError: 0, maxBytes: 0 };

/**
 * Cache key of a lookup. It contains the id of the tenant's state: a tenant that returns with other options finds no earlier
 * entry. The length separates event id and address.
 */
export function lookupKey({ tenant, eventId, contactEmail }: LookupSubject): string {
  // `join` makes one string; a template may make a tree of them, of twice the size.
  return [tenant.stateKey.id, eventId.length, eventId + contactEmail].join(':');
}

export function isLookupOf(name: LookupName, filter: LookupFilter): boolean {
  return (
    (filter.tenant === undefined || filter.tenant === name.tenant) &&
    (filter.eventId === undefined || filter.eventId === name.eventId) &&
    (filter.contactEmail === undefined || filter.contactEmail === name.contactEmail)
  );
}

/**
 * Answers in memory, including empty ones, bounded by number and by weight. Large answers and, with `lookupCache: false`, all
 * answers are not kept.
 */
export class LookupCache {
  private readonly entries: FairCache<CachedLookup>;
  private readonly limits: typeof NOTHING;

  constructor(
    settings: ExhibitorSettings['lookupCache'],
    private readonly clock: Clock,
  ) {
    this.limits = settings === false ? NOTHING : settings;
    this.entries = new FairCache(clock, this.limits.max * this.limits.maxBytes);
  }

  fresh(subject: LookupSubject): CachedLookup | undefined {
    const entry = this.entries.get(lookupKey(subject));
    return entry !== undefined && this.clock.now() < entry.freshUntil ? entry : undefined;
  }

  /** The answer, while it may be used because the service fails (`staleIfError`). */
  stale(subject: LookupSubject): CachedLookup | undefined {
    return this.entries.get(lookupKey(subject));
  }

  /**
   * Keeps an answer, unless there is a newer one of the same generation: that of another process may be older.
   *
   * @param freshFor milliseconds for which the answer is fresh, at most `ttl`; 0 or less for one that is not
   */
  keep(subject: LookupSubject, answer: LookupAnswer, freshFor: number, generation: Generation): void {
    const { max, maxBytes, staleIfError } = this.limits;
    const key = lookupKey(subject);
    const ttl = Math.min(freshFor, this.limits.ttl);
    const freshUntil = this.clock.now() + ttl;
    const former = this.entries.peek(key);
    if (former?.generation === generation.id && former.freshUntil > freshUntil) {
      return;
    }
    const bytes = ENTRY_WEIGHT + 4 * key.length + answer.weight;
    if (bytes > maxBytes * LARGEST_SHARE) {
      this.entries.delete(key);
      return;
    }
    const { tenant, eventId, contactEmail } = subject;
    const emailAt = key.length - contactEmail.length;
    const entry = {
      tenant: tenant.key,
      // As parts of the key: an event id that is a part of a long URL would keep all of it in memory.
      eventId: key.slice(emailAt - eventId.length, emailAt),
      contactEmail: key.slice(emailAt),
      records: answer.records,
      weight: bytes,
      freshUntil,
      generation: generation.id,
      recheckAt: generation.recheckAt,
    };
    // Both limits are one: with `max` 10 and `maxBytes` 100 the capacity is 1000; an entry of 5 bytes weighs 100, one of 20 bytes 200.
    const weight = Math.max(bytes * max, maxBytes);
    this.entries.set(key, entry, { tenant: tenant.key, weight, ttl: ttl + staleIfError });
  }

  forget(filter: LookupFilter): void {
    this.entries.deleteWhere((entry) => isLookupOf(entry, filter));
  }
}
