import type { SandboxExhibitor } from './sandbox-exhibitor.interface.js';
import type { SandboxSeed, SeedEvent } from './seed.js';

/** The exhibitors of every tenant and event, as they stand now. */
export class ExhibitorRecords {
  readonly #byTenant: Map<string, Map<string, readonly SandboxExhibitor[]>>;
  readonly #events: Map<string, SeedEvent>;

  constructor(seed: SandboxSeed) {
    this.#byTenant = new Map(
      seed.tenants.map(({ key }) => [key, new Map(Object.entries(seed.exhibitors[key] ?? {}))]),
    );
    this.#events = new Map(seed.events.map((event) => [event.id, event]));
  }

  /** Every event some tenant has, seeded ones first. */
  get events(): readonly SeedEvent[] {
    return [...this.#events.values()];
  }

  /** `undefined`: this tenant has no such event. */
  find(tenantKey: string, eventId: string): readonly SandboxExhibitor[] | undefined {
    return this.#eventsOf(tenantKey).get(eventId);
  }

  /** Replaces the records of an event at one tenant, or at all; an event not known so far comes to exist. */
  replace(eventId: string, records: readonly SandboxExhibitor[], tenantKey?: string): void {
    const tenants = tenantKey === undefined ? [...this.#byTenant.values()] : [this.#eventsOf(tenantKey)];
    for (const events of tenants) {
      events.set(eventId, [...records]);
    }
    if (!this.#events.has(eventId)) {
      this.#events.set(eventId, { id: eventId, title: eventId });
    }
  }

  #eventsOf(tenantKey: string): Map<string, readonly SandboxExhibitor[]> {
    const events = this.#byTenant.get(tenantKey);
    if (!events) {
      throw new Error(
        `The sandbox has no tenant "${tenantKey}"; it has ${[...this.#byTenant.keys()].join(', ')}`,
      );
    }
    return events;
  }
}
