/** What an {@link OutboxRoom} counts. */
interface Named {
  readonly tenant: string;
  readonly name: string;
}

/**
 * Bounded room for entries of one kind. Where it is full, the tenant with the most entries loses its oldest one: a tenant that
 * uses less than an equal share loses nothing to the others.
 */
export class OutboxRoom<E extends Named> {
  /** By tenant and name, the oldest first. */
  private readonly tenants = new Map<string, Map<string, E>>();
  private count = 0;

  constructor(private readonly max: number) {}

  get size(): number {
    return this.count;
  }

  has(tenant: string, name: string): boolean {
    return this.tenants.get(tenant)?.has(name) === true;
  }

  *entries(): Generator<E> {
    for (const entries of this.tenants.values()) {
      yield* entries.values();
    }
  }

  /** Adds an entry in place of one of the same name. */
  add(entry: E): void {
    const entries = this.tenants.get(entry.tenant) ?? new Map<string, E>();
    this.tenants.set(entry.tenant, entries);
    // Deleted first, so that it is the newest.
    this.count += entries.delete(entry.name) ? 0 : 1;
    entries.set(entry.name, entry);
    if (this.count > this.max) {
      this.removeOldest();
    }
  }

  /** Removes this entry, but not a newer one of the same name. */
  remove(entry: E): void {
    const entries = this.tenants.get(entry.tenant);
    if (entries?.get(entry.name) !== entry) {
      return;
    }
    entries.delete(entry.name);
    this.count -= 1;
    if (entries.size === 0) {
      this.tenants.delete(entry.tenant);
    }
  }

  private removeOldest(): void {
    const [fullest] = [...this.tenants.values()].toSorted((a, b) => b.size - a.size);
    const [oldest] = fullest?.values() ?? [];
    if (oldest !== undefined) {
      this.remove(oldest);
    }
  }
}
