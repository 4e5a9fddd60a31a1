import type { ExhibitorSettings } from '../../options/exhibitor-settings.js';
import type { Tenant } from '../../tenants/tenant.js';
import type { LookupFilter } from '../call-options.interface.js';
import { BalancedCache } from './balanced-cache.js';

/** Arguments of a lookup. */
export interface LookupSubject {
  tenant: Tenant;
  eventId: string;
  contactEmail: string;
}

/** A lookup by the key of its tenant: cache entries must not keep a tenant in memory. */
export interface LookupName extends Omit<LookupSubject, 'tenant'> {
  tenant: string;
}

/** The records of a lookup. */
export interface LookupAnswer {
  records: readonly unknown[];
  /** Estimated bytes of heap. */
  weight: number;
}

/** A cached answer. Its key has event id and address. */
export interface CachedLookup extends LookupAnswer {
  readonly tenant: string;
  /** {@link Clock.now} until which the answer is fresh. */
  readonly freshUntil: number;
  /** Generation that the answer belongs to. */
  readonly generation: string;
  /** {@link Clock.now} from which the generation must be compared again. */
  recheckAt: number;
}

/** Time and generation of an answer. */
export interface LookupAge {
  /** Milliseconds for which it is fresh, at most `ttl`; negative for one that is not. */
  freshFor: number;
  generation: string;
  recheckAt: number;
}

const UNSHARED: LookupAge = {
  freshFor: Number.POSITIVE_INFINITY,
  generation: '',
  recheckAt: Number.POSITIVE_INFINITY,
};

/** Bytes of an entry without records and names. */
const ENTRY_WEIGHT = 512;

/** Answers of more than this share of `maxBytes` are not kept: one of them would push out many others. */
const LARGEST_SHARE = 1 / 16;

/** Cached answers are searched for expired ones at most this often, in ms. */
const PURGE_EVERY = 10_000;

/**
 * Cache key of a lookup. It contains the id of the tenant's state: a tenant that returns with other options finds no earlier
 * entry. The length separates event id and address.
 */
export function lookupKey({ tenant, eventId, contactEmail }: LookupSubject): string {
  // `join` makes one string; a template may make a tree of them, of twice the size.
  return [tenant.stateKey.id, eventId.length, eventId + contactEmail].join(':');
}

/** Event id and address of a {@link lookupKey}. */
function subjectOf(key: string): Omit<LookupSubject, 'tenant'> {
  const lengthAt = key.indexOf(':') + 1;
  const eventAt = key.indexOf(':', lengthAt) + 1;
  const emailAt = eventAt + Number(key.slice(lengthAt, eventAt - 1));
  return { eventId: key.slice(eventAt, emailAt), contactEmail: key.slice(emailAt) };
}

/** True where a lookup matches the filter. */
export function isLookupOf(name: LookupName, filter: LookupFilter): boolean {
  return (
    (filter.tenant === undefined || filter.tenant === name.tenant) &&
    (filter.eventId === undefined || filter.eventId === name.eventId) &&
    (filter.contactEmail === undefined || filter.contactEmail === name.contactEmail)
  );
}

/**
 * Cached answers, including empty ones, bounded by number and by weight. Tenants share it fairly ({@link BalancedCache}). Large
 * answers and, with `lookupCache: false`, all answers are not kept.
 */
export class LookupCache {
  readonly #entries: BalancedCache<CachedLookup>;
  readonly #largest: number;
  readonly #ttl: number;
  readonly #staleIfError: number;
  #purgedAt = Number.NEGATIVE_INFINITY;

  constructor(settings: ExhibitorSettings['lookupCache']) {
    const none = { ttl: 0, max: 0, staleIfError: 0, maxBytes: 0 };
    const { ttl, max, staleIfError, maxBytes } = settings === false ? none : settings;
    this.#entries = new BalancedCache({ max, maxWeight: maxBytes });
    this.#largest = maxBytes * LARGEST_SHARE;
    this.#ttl = ttl;
    this.#staleIfError = staleIfError;
  }

  /** The answer, while it is fresh. */
  fresh(key: string, now: number): CachedLookup | undefined {
    const entry = this.#entries.get(key);
    return entry !== undefined && now < entry.freshUntil ? entry : undefined;
  }

  /** The answer, while it may be used because the service fails (`staleIfError`). */
  stale(key: string, now: number): CachedLookup | undefined {
    const entry = this.#entries.get(key);
    return entry !== undefined && !this.#isExpired(entry, now) ? entry : undefined;
  }

  keep(
    key: string,
    tenant: string,
    { records, weight }: LookupAnswer,
    now: number,
    { freshFor, generation, recheckAt } = UNSHARED,
  ): void {
    this.#purge(now);
    const whole = ENTRY_WEIGHT + 4 * key.length + weight;
    if (whole > this.#largest) {
      this.#entries.delete(key);
      return;
    }
    const freshUntil = now + Math.min(freshFor, this.#ttl);
    this.#entries.set(key, { tenant, records, weight: whole, freshUntil, generation, recheckAt });
  }

  remove(key: string): void {
    this.#entries.delete(key);
  }

  forget(filter: LookupFilter): void {
    this.#entries.deleteWhere(({ tenant }, key) => isLookupOf({ tenant, ...subjectOf(key) }, filter));
  }

  #purge(now: number): void {
    if (now - this.#purgedAt >= PURGE_EVERY) {
      this.#purgedAt = now;
      this.#entries.deleteWhere((entry) => this.#isExpired(entry, now));
    }
  }

  #isExpired({ freshUntil }: CachedLookup, now: number): boolean {
    return now >= freshUntil + this.#staleIfError;
  }
}
