import type { Clock } from '../call/clock.js';
import { createCache, type ExpiringCache } from '../call/expiring-cache.js';
import type { ExhibitorSettings } from '../config/exhibitor-settings.js';
import type { SharedValues } from '../store/shared-values.service.js';

/** What ends logins, in the store: ends of logins and logouts of users. No name is of both. */
export const ENDED_LOGIN = 'ended-login';

/** Times that a process remembers of each kind. Many logouts at a provider must not displace ends. */
const MAX = 100_000;

/**
 * By how much the date of the host may be set back, in ms. A sealed identity is valid for so much longer then, and so the end of its
 * login must be remembered for so much longer.
 */
export const CLOCK_MARGIN = 7_200_000;

/** Which of two times of one name counts. */
const RULES = { earlier: Math.min, later: Math.max } as const;

/** Those of modules in this process that tell each other. */
const sharing = { earlier: new Set<SharedTimes>(), later: new Set<SharedTimes>() } as const;

/** Times by name, in ms since 1970, as this process knows them: they were added here, or found in the `store`. */
export class SharedTimes {
  readonly known: ExpiringCache<number>;
  /** For how long times are known at most, in ms: no login that began before lives longer. */
  readonly longest: number;
  /** No log of a service shows them. */
  readonly #secrets: readonly string[];

  /** @param rule which of two times of one name counts */
  constructor(
    private readonly rule: keyof typeof RULES,
    { cookies, secrets }: ExhibitorSettings,
    private readonly values: SharedValues,
    clock: Clock,
  ) {
    this.known = createCache(clock, { max: MAX });
    this.longest = cookies.absoluteTtl + CLOCK_MARGIN;
    this.#secrets = secrets;
  }

  /** From now on, modules in this process that have a secret in common tell each other: they open the same cookies. */
  share(): void {
    sharing[this.rule].add(this);
  }

  stopSharing(): void {
    sharing[this.rule].delete(this);
  }

  /** Adds a time for `ttl` ms, or for as long as the one before, where that is longer. Returns that which counts. */
  add(name: string, time: number, ttl = this.longest): number {
    const together = sharing[this.rule];
    const told = together.has(this)
      ? [...together].filter((one) => one.#secrets.some((secret) => this.#secrets.includes(secret)))
      : [this];
    for (const { known } of told) {
      const kept = RULES[this.rule](time, known.get(name) ?? time);
      known.set(name, kept, { ttl: Math.max(ttl, known.getRemainingTTL(name)) });
    }
    return this.known.get(name) ?? time;
  }

  /**
   * Adds the time that the store has, so that it counts while the store is down, too. Text that is no time is earlier than all. Returns
   * false where the store did not answer.
   */
  async learn(name: string): Promise<boolean> {
    const text = await this.values.read(ENDED_LOGIN, name);
    if (text === null) {
      return false;
    }
    this.values.publishOutcome(ENDED_LOGIN, text === undefined ? 'miss' : 'hit');
    if (text !== undefined) {
      const time = Number(text);
      this.add(name, Number.isNaN(time) ? Number.NEGATIVE_INFINITY : time);
    }
    return true;
  }
}
