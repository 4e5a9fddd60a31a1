import type { Clock } from '../call/clock.js';
import { createCache, type ExpiringCache } from '../call/expiring-cache.js';

/** Entries of each cache. They have no common limit: many logouts at a provider must not displace ends. */
const MAX = 100_000;

/** Those that tell each other. */
const sharing = new Set<RememberedEnds>();

/**
 * What ends logins, as this process remembers it: what was ended here, and what it has found in the `store`.
 *
 * | cache     | entry                           | name                   | time, in ms since 1970          | which of two counts |
 * | --------- | ------------------------------- | ---------------------- | ------------------------------- | ------------------- |
 * | `ends`    | the end of one login            | the id of its identity | from which the login has ended  | the earlier one     |
 * | `logouts` | a logout of a user or a session | see `logout-names`     | of the logout                   | the later one       |
 */
export class RememberedEnds {
  readonly ends: ExpiringCache<number>;
  readonly logouts: ExpiringCache<number>;

  /** @param secrets of its registration */
  constructor(
    clock: Clock,
    private readonly secrets: readonly string[],
  ) {
    this.ends = createCache(clock, { max: MAX });
    this.logouts = createCache(clock, { max: MAX });
  }

  /** From now on, registrations of this process that have a secret in common tell each other: they open the same cookies. */
  share(): void {
    sharing.add(this);
  }

  stopSharing(): void {
    sharing.delete(this);
  }

  addEnd(id: string, from: number, ttl: number): void {
    for (const { ends } of this.#told()) {
      keepAtLeast(ends, id, Math.min(from, ends.get(id) ?? from), ttl);
    }
  }

  addLogout(name: string, at: number, ttl: number): void {
    for (const { logouts } of this.#told()) {
      keepAtLeast(logouts, name, Math.max(at, logouts.get(name) ?? at), ttl);
    }
  }

  #told(): RememberedEnds[] {
    return sharing.has(this)
      ? [...sharing].filter(({ secrets }) => secrets.some((secret) => this.secrets.includes(secret)))
      : [this];
  }
}

/** Keeps a time for `ttl` ms, or for as long as the one before was to be kept, where that is longer. */
function keepAtLeast(cache: ExpiringCache<number>, name: string, time: number, ttl: number): void {
  cache.set(name, time, { ttl: Math.max(ttl, cache.getRemainingTTL(name)) });
}
