import type { SandboxExhibitor } from '../seed/generate-exhibitors.js';
import { tenantOf, tenantsOf, type SandboxSeed, type SeedEvent } from '../seed/seed.js';

export class ExhibitorRecords {
  readonly #byTenant: ReadonlyMap<string, Map<string, readonly SandboxExhibitor[]>>;
  readonly #events: Map<string, SeedEvent>;

  constructor(private readonly seed: SandboxSeed) {
    this.#byTenant = new Map(
      seed.tenants.map(({ key }) => [key, new Map(Object.entries(seed.exhibitors[key] ?? {}))]),
    );
    this.#events = new Map(seed.events.map((event) => [event.id, event]));
  }

  /** The events of all tenants: seeded events first, then those added by {@link replace}. */
  get events(): readonly SeedEvent[] {
    return [...this.#events.values()];
  }

  /** The exhibitors of an event. `undefined` if the tenant does not have the event. */
  find(tenantKey: string, eventId: string): readonly SandboxExhibitor[] | undefined {
    return this.#byTenant.get(tenantOf(this.seed, tenantKey).key)?.get(eventId);
  }

  /** Replaces the exhibitors of an event for one tenant, or for all. Adds the event if it does not exist. */
  replace(eventId: string, records: readonly SandboxExhibitor[], tenantKey?: string): void {
    for (const { key } of tenantsOf(this.seed, tenantKey)) {
      this.#byTenant.get(key)?.set(eventId, [...records]);
    }
    if (!this.#events.has(eventId)) {
      this.#events.set(eventId, { id: eventId, title: eventId });
    }
  }
}

/** Largest page of the service (service specification, Limits). */
export const MAX_ITEMS_PER_PAGE = 50;

/** One page in the collection wrapper of the service; beyond the last page, an empty one. */
export function pageOf<T>(items: readonly T[], currentPage: number, itemsPerPage: number) {
  const totalPages = Math.ceil(items.length / itemsPerPage);
  return {
    paginationMetadata: {
      currentPage,
      totalCount: items.length,
      totalPages,
      hasPreviousPage: currentPage > 1 && totalPages > 0,
      hasNextPage: currentPage < totalPages,
      itemsPerPage,
    },
    data: items.slice((currentPage - 1) * itemsPerPage, currentPage * itemsPerPage),
  };
}
