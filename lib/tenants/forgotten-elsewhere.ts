import type { Clock } from '../time/clock.js';
import { expiringCache, type ExpiringCache } from '../time/expiring-cache.js';
import type { SharedForgets } from './shared-forgets.interface.js';

/** Marks in memory. */
const MAX_MARKS = 10_000;

/** Something that was read from the source, and the era before that. */
export interface Dated {
  era: string;
  /** The check under way, and the era for which it is made. */
  checking?: { era: string; done: Promise<boolean> };
}

/** Finds out which of the tenants that this process holds were forgotten in another process. */
export class ForgottenElsewhere {
  readonly #forgets: SharedForgets;
  /** Marks that this process has acted on. */
  readonly #seen: ExpiringCache<{ mark: string }>;

  constructor(forgets: SharedForgets, clock: Clock) {
    this.#forgets = forgets;
    this.#seen = expiringCache(clock, { max: MAX_MARKS });
  }

  /** The era, where it is known to be current. */
  get era(): string | undefined {
    return this.#forgets.era();
  }

  readEra(): Promise<string> {
    return this.#forgets.readEra();
  }

  /** This process forgot a tenant. */
  announce(key: string): void {
    void this.#forgets.announce(key, (mark) => this.#seen.set(key, { mark }));
  }

  /** True where another process forgot this tenant. `known` is then of the past; else it is of the current era. */
  has(key: string, known: Dated, era: string): Promise<boolean> {
    if (known.checking?.era !== era) {
      known.checking = { era, done: this.#check(key, known, era) };
    }
    return known.checking.done;
  }

  async #check(key: string, known: Dated, era: string): Promise<boolean> {
    const mark = await this.#forgets.markOf(key);
    if (mark === undefined) {
      // The store is down. The next call checks again.
      known.checking = undefined;
      return false;
    }
    if (mark === '' || this.#seen.get(key)?.mark === mark) {
      known.era = era;
      return false;
    }
    this.#seen.set(key, { mark });
    return true;
  }
}
