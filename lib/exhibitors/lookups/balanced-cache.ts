/** A value with what it costs, and whom. */
export interface Weighed {
  readonly tenant: string;
  readonly weight: number;
}

/** What the entries of one tenant use. */
interface Usage {
  entries: number;
  weight: number;
}

/** Limits of a {@link BalancedCache}. */
export interface BalancedCacheLimits {
  /** Number of entries. */
  max: number;
  /** Sum of the weights. */
  maxWeight: number;
}

/**
 * A weighed cache of all tenants. Where it is full, the tenant that uses most of what is short (entries or weight) loses its
 * least recently used entry, so that a tenant that uses less than an equal share loses nothing to the others. There is one Map
 * for all tenants, since one for each takes 230 bytes even where it has one entry.
 */
export class BalancedCache<V extends Weighed> {
  /** The least recently used entry first. */
  readonly #entries = new Map<string, V>();
  /** By tenant, the one that added an entry last at the end. */
  readonly #used = new Map<string, Usage>();
  readonly #all: Usage = { entries: 0, weight: 0 };

  constructor(private readonly limits: BalancedCacheLimits) {}

  get(key: string): V | undefined {
    const found = this.#entries.get(key);
    if (found !== undefined) {
      this.#entries.delete(key);
      this.#entries.set(key, found);
    }
    return found;
  }

  /** @param key must be that of one tenant only */
  set(key: string, value: V): void {
    this.delete(key);
    this.#entries.set(key, value);
    const { tenant, weight } = value;
    const used = this.#used.get(tenant) ?? { entries: 0, weight: 0 };
    this.#used.delete(tenant);
    this.#used.set(tenant, used);
    this.#count(used, 1, weight);
    while (this.#all.entries > this.limits.max) {
      this.#evict('entries');
    }
    while (this.#all.weight > this.limits.maxWeight) {
      this.#evict('weight');
    }
  }

  delete(key: string): void {
    const found = this.#entries.get(key);
    const used = found && this.#used.get(found.tenant);
    if (found === undefined || used === undefined) {
      return;
    }
    this.#entries.delete(key);
    this.#count(used, -1, -found.weight);
    if (used.entries === 0) {
      this.#used.delete(found.tenant);
    }
  }

  deleteWhere(matches: (value: V, key: string) => boolean): void {
    for (const [key, value] of this.#entries) {
      if (matches(value, key)) {
        this.delete(key);
      }
    }
  }

  #count(used: Usage, entries: number, weight: number): void {
    for (const usage of [used, this.#all]) {
      usage.entries += entries;
      usage.weight += weight;
    }
  }

  /** Removes the least recently used entry of the tenant that uses most; among equals, of the one that was idle longest. */
  #evict(short: keyof Usage): void {
    let most = 0;
    let largest = '';
    for (const [tenant, used] of this.#used) {
      if (used[short] > most) {
        most = used[short];
        largest = tenant;
      }
    }
    for (const [key, { tenant }] of this.#entries) {
      if (tenant === largest) {
        this.delete(key);
        return;
      }
    }
  }
}
