import { LRUCache } from 'lru-cache';
import type { ExhibitorSettings } from '../../options/exhibitor-settings.js';
import type { Tenant } from '../../tenants/tenant.js';
import type { LookupFilter } from '../call-options.interface.js';

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

interface Entry {
  name: LookupName;
  records: readonly unknown[];
  /** {@link Clock.now} until which the answer is fresh. */
  freshUntil: number;
}

/**
 * Cache key of a lookup. It contains the id of the tenant's state: a tenant that returns with other options finds no earlier
 * entry. The length separates event id and address.
 */
export function lookupKey({ tenant, eventId, contactEmail }: LookupSubject): string {
  return `${tenant.stateKey.id}:${eventId.length}:${eventId}${contactEmail}`;
}

/** True where a lookup matches the filter. */
export function isLookupOf(name: LookupName, filter: LookupFilter): boolean {
  return (
    (filter.tenant === undefined || filter.tenant === name.tenant) &&
    (filter.eventId === undefined || filter.eventId === name.eventId) &&
    (filter.contactEmail === undefined || filter.contactEmail === name.contactEmail)
  );
}

/** Cached answers, including empty ones. With `lookupCache: false` it stores nothing. */
export class LookupCache {
  readonly #entries: LRUCache<string, Entry> | undefined;
  readonly #ttl: number;
  readonly #staleIfError: number;

  constructor(settings: ExhibitorSettings['lookupCache']) {
    const { ttl, max, staleIfError } = settings === false ? { ttl: 0, max: 0, staleIfError: 0 } : settings;
    this.#entries = max > 0 ? new LRUCache<string, Entry>({ max }) : undefined;
    this.#ttl = ttl;
    this.#staleIfError = staleIfError;
  }

  /** The answer, while it is fresh. */
  fresh(key: string, now: number): readonly unknown[] | undefined {
    const entry = this.#entries?.get(key);
    return entry !== undefined && now < entry.freshUntil ? entry.records : undefined;
  }

  /** The answer, while it may be used because the service fails (`staleIfError`). */
  stale(key: string, now: number): readonly unknown[] | undefined {
    const entry = this.#entries?.peek(key);
    return entry !== undefined && now < entry.freshUntil + this.#staleIfError ? entry.records : undefined;
  }

  keep(key: string, name: LookupName, records: readonly unknown[], now: number): void {
    this.#entries?.set(key, { name, records, freshUntil: now + this.#ttl });
  }

  forget(filter: LookupFilter): void {
    for (const [key, { name }] of this.#entries?.entries() ?? []) {
      if (isLookupOf(name, filter)) {
        this.#entries?.delete(key);
      }
    }
  }
}
