interface Weighed<V> {
  value: V;
  weight: number;
}

/** Entries of one tenant, the least recently used first. */
interface Share<V> {
  entries: Map<string, Weighed<V>>;
  weight: number;
}

/** Limits of a {@link FairCache}. */
export interface FairLimits {
  /** Number of entries. */
  max: number;
  /** Sum of the weights. */
  maxWeight: number;
}

/**
 * A cache that tenants share fairly. Where it is full, the tenant that uses most of what is short (entries or weight) loses
 * its least recently used entry. So a tenant that uses less than an equal share loses nothing to the others.
 */
export class FairCache<V> {
  readonly #limits: FairLimits;
  /** By tenant, the one that added an entry last at the end. */
  readonly #shares = new Map<string, Share<V>>();
  #count = 0;
  #weight = 0;

  constructor(limits: FairLimits) {
    this.#limits = limits;
  }

  get(tenant: string, key: string): V | undefined {
    const entries = this.#shares.get(tenant)?.entries;
    const found = entries?.get(key);
    if (entries === undefined || found === undefined) {
      return undefined;
    }
    entries.delete(key);
    entries.set(key, found);
    return found.value;
  }

  set(tenant: string, key: string, value: V, weight: number): void {
    this.delete(tenant, key);
    const share = this.#shares.get(tenant) ?? { entries: new Map<string, Weighed<V>>(), weight: 0 };
    this.#shares.delete(tenant);
    this.#shares.set(tenant, share);
    share.entries.set(key, { value, weight });
    this.#add(share, 1, weight);
    while (this.#count > this.#limits.max) {
      this.#evict((one) => one.entries.size);
    }
    while (this.#weight > this.#limits.maxWeight) {
      this.#evict((one) => one.weight);
    }
  }

  delete(tenant: string, key: string): void {
    const share = this.#shares.get(tenant);
    const found = share?.entries.get(key);
    if (share === undefined || found === undefined) {
      return;
    }
    share.entries.delete(key);
    this.#add(share, -1, -found.weight);
    if (share.entries.size === 0) {
      this.#shares.delete(tenant);
    }
  }

  deleteWhere(matches: (value: V) => boolean): void {
    for (const [tenant, { entries }] of this.#shares) {
      for (const [key, { value }] of entries) {
        if (matches(value)) {
          this.delete(tenant, key);
        }
      }
    }
  }

  #add(share: Share<V>, count: number, weight: number): void {
    share.weight += weight;
    this.#count += count;
    this.#weight += weight;
  }

  /** Removes the least recently used entry of the tenant that uses most; among equals, of the one that was idle longest. */
  #evict(usage: (share: Share<V>) => number): void {
    let most = 0;
    let tenant = '';
    for (const [name, share] of this.#shares) {
      const used = usage(share);
      if (used > most) {
        most = used;
        tenant = name;
      }
    }
    const oldest = this.#shares.get(tenant)?.entries.keys().next().value;
    if (oldest !== undefined) {
      this.delete(tenant, oldest);
    }
  }
}
