import { LRUCache } from 'lru-cache';
import type { ExhibitorSettings } from '../../options/exhibitor-settings.js';
import type { Tenant } from '../../tenants/tenant.js';
import type { LookupFilter } from '../call-options.interface.js';

/** Whose exhibitors are looked up, where. */
export interface LookupSubject {
  tenant: Tenant;
  eventId: string;
  contactEmail: string;
}

/** A lookup by name: what is kept must not keep a tenant that has left. */
export interface LookupName extends Omit<LookupSubject, 'tenant'> {
  /** Key of the tenant. */
  tenant: string;
}

interface Entry {
  name: LookupName;
  records: readonly unknown[];
  /** {@link Clock.now} until which the answer is good. */
  freshUntil: number;
}

const anchorIds = new WeakMap<object, number>();
let anchors = 0;

/**
 * Key of a lookup. The tenant is in it as its anchor: one that left the registry, or came back with other credentials,
 * finds nothing of what was kept. The address counts byte for byte; lengths keep the parts apart.
 */
export function lookupKey({ tenant, eventId, contactEmail }: LookupSubject): string {
  const known = anchorIds.get(tenant.stateKey);
  const id = known ?? (anchors += 1);
  if (known === undefined) {
    anchorIds.set(tenant.stateKey, id);
  }
  return `${id}:${eventId.length}:${eventId}${contactEmail}`;
}

/** True where a lookup is one of those the filter names. */
export function isLookupOf(name: LookupName, filter: LookupFilter): boolean {
  return (
    (filter.tenant === undefined || filter.tenant === name.tenant) &&
    (filter.eventId === undefined || filter.eventId === name.eventId) &&
    (filter.contactEmail === undefined || filter.contactEmail === name.contactEmail)
  );
}

/** Answers to lookups, empty ones included; none at all with `lookupCache: false`. */
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

  /** The answer while it is good. */
  fresh(key: string, now: number): readonly unknown[] | undefined {
    const entry = this.#entries?.get(key);
    return entry !== undefined && now < entry.freshUntil ? entry.records : undefined;
  }

  /** The answer while it may stand in for a service that fails. */
  standIn(key: string, now: number): readonly unknown[] | undefined {
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
