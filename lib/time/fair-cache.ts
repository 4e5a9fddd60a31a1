import type { Clock } from './clock.js';
import { Heap } from './heap.js';

/** Expired entries are searched for at most this often, in ms. */
const PURGE_EVERY = 10_000;

interface Entry<V> {
  readonly key: string;
  readonly value: V;
  readonly weight: number;
  /** {@link Clock.now} at which it expires. */
  readonly until: number;
  readonly share: Share<V>;
  older: Entry<V> | undefined;
  newer: Entry<V> | undefined;
}

/**
 * What one tenant holds: a linked list in the order of use. In a Map, the search for the oldest entry passes all that were
 * deleted before it: removing 90,000 of 100,000 entries took 3 s.
 */
interface Share<V> {
  readonly tenant: string;
  oldest: Entry<V> | undefined;
  newest: Entry<V> | undefined;
  weight: number;
  /** Number of the last write of the tenant. */
  lastWrite: number;
  place: number;
}

export interface FairCacheEntry {
  /** Key of the tenant whose share it takes; default: all entries are one share. */
  tenant?: string;
  /** What it takes of the capacity, such as its bytes; default 1. */
  weight?: number;
  /** Lifetime in milliseconds; default: no end. */
  ttl?: number;
}

/**
 * A bounded cache that tenants share. Where it is full, the tenant that holds most loses its least recently used entry: one
 * that holds less than an equal share loses nothing to the others. The cost of a write grows with the logarithm of the number
 * of tenants, not with the number of entries. A write also removes what has expired, every 10 s.
 */
export class FairCache<V> {
  readonly #entries = new Map<string, Entry<V>>();
  readonly #shares = new Map<string, Share<V>>();
  /** Among equals, the tenant that has written nothing for longest. */
  readonly #heaviest = new Heap<Share<V>>(
    (a, b) => a.weight > b.weight || (a.weight === b.weight && a.lastWrite < b.lastWrite),
  );
  #weight = 0;
  #writes = 0;
  #purgedAt: number;

  /** @param max largest sum of all weights */
  constructor(
    private readonly clock: Clock,
    private readonly max: number,
  ) {
    this.#purgedAt = clock.now();
  }

  /** Number of entries, expired ones included. */
  get size(): number {
    return this.#entries.size;
  }

  get(key: string): V | undefined {
    const entry = this.#valid(key);
    if (entry !== undefined) {
      unlink(entry);
      append(entry);
    }
    return entry?.value;
  }

  /** As {@link get}, but it is no use of the entry. */
  peek(key: string): V | undefined {
    return this.#valid(key)?.value;
  }

  /** Stores nothing where the value is heavier than the capacity. */
  set(key: string, value: V, { tenant = '', weight = 1, ttl = Infinity }: FairCacheEntry = {}): void {
    const now = this.clock.now();
    if (now - this.#purgedAt >= PURGE_EVERY) {
      this.#purgedAt = now;
      this.#deleteEntries(({ until }) => now >= until);
    }
    this.delete(key);
    if (weight > this.max) {
      return;
    }
    const share = this.#shareOf(tenant);
    const entry = { key, value, weight, until: now + ttl, share, older: undefined, newer: undefined };
    this.#entries.set(key, entry);
    append(entry);
    this.#writes += 1;
    share.lastWrite = this.#writes;
    this.#weigh(share, weight);
    while (this.#weight > this.max && this.#heaviest.first?.oldest !== undefined) {
      this.#remove(this.#heaviest.first.oldest);
    }
  }

  delete(key: string): void {
    const entry = this.#entries.get(key);
    if (entry !== undefined) {
      this.#remove(entry);
    }
  }

  deleteWhere(matches: (value: V) => boolean): void {
    this.#deleteEntries(({ value }) => matches(value));
  }

  /** The least recently used value of each tenant, then the second of each, and so on. The last one may be deleted. */
  *roundRobin(): Generator<V> {
    let round = [...this.#shares.values()].map(({ oldest }) => oldest);
    while (round.length > 0) {
      const next: typeof round = [];
      for (const entry of round) {
        if (entry !== undefined) {
          yield entry.value;
          next.push(entry.newer);
        }
      }
      round = next;
    }
  }

  #valid(key: string): Entry<V> | undefined {
    const entry = this.#entries.get(key);
    return entry !== undefined && this.clock.now() < entry.until ? entry : undefined;
  }

  #deleteEntries(matches: (entry: Entry<V>) => boolean): void {
    for (const entry of this.#entries.values()) {
      if (matches(entry)) {
        this.#remove(entry);
      }
    }
  }

  #shareOf(tenant: string): Share<V> {
    let share = this.#shares.get(tenant);
    if (share === undefined) {
      share = { tenant, oldest: undefined, newest: undefined, weight: 0, lastWrite: 0, place: 0 };
      this.#shares.set(tenant, share);
      this.#heaviest.add(share);
    }
    return share;
  }

  #remove(entry: Entry<V>): void {
    const { key, share, weight } = entry;
    this.#entries.delete(key);
    unlink(entry);
    this.#weigh(share, -weight);
    if (share.oldest === undefined) {
      this.#shares.delete(share.tenant);
      this.#heaviest.remove(share);
    }
  }

  #weigh(share: Share<V>, change: number): void {
    share.weight += change;
    this.#weight += change;
    this.#heaviest.update(share);
  }
}

function append<V>(entry: Entry<V>): void {
  const { share } = entry;
  entry.older = share.newest;
  entry.newer = undefined;
  if (share.newest === undefined) {
    share.oldest = entry;
  } else {
    share.newest.newer = entry;
  }
  share.newest = entry;
}

function unlink<V>({ share, older, newer }: Entry<V>): void {
  if (older === undefined) {
    share.oldest = newer;
  } else {
    older.newer = newer;
  }
  if (newer === undefined) {
    share.newest = older;
  } else {
    newer.older = older;
  }
}
