import type { Clock } from '../time/clock.js';
import { withTimeout } from '../time/with-timeout.js';

/** How long a fetched document is used without fetching it again, in ms. */
const FRESH = 600_000;

/** How long the last good document is used while it cannot be fetched, in ms. */
const LAST_GOOD = 86_400_000;

/**
 * Time in ms without fetches after one that failed, and after one because the document was of no use to a caller. Any token can
 * cause such a fetch, so that forged tokens must not cause a flood of them. Where they succeed, the first fetch and the regular ones
 * cause no pause: what changes right after them must be found at once.
 */
const PAUSE = 30_000;

/**
 * A document of a URL: fetched when first needed, by one request for concurrent callers, and used for 10 minutes. While it
 * cannot be fetched, the last good one is used, for a day.
 *
 * A caller takes a fresh document, unless it was of no use to it. For any other caller, the first row that fits:
 *
 * | the last fetch                    | where there is a last good document        | where there is none     |
 * | --------------------------------- | ------------------------------------------ | ----------------------- |
 * | goes on                           | waits; takes that one if it is too slow    | waits                   |
 * | caused a pause, which is not over | takes that one                             | fails as that fetch did |
 * | else, also if there was none      | fetches, and waits as for one that goes on | fetches, and waits      |
 */
export class RemoteDocument<T> {
  #lastGood: { value: T; fetchedAt: number } | undefined;
  /** The last fetch, and whether it goes on. */
  #fetched: Promise<T> | undefined;
  #isFetching = false;
  /** Times in ms of {@link Clock.now}. A fetch sets those that it began with: where they were expired since, that has no effect. */
  #until = { fresh: 0, paused: 0 };

  constructor(private readonly clock: Clock) {}

  /**
   * The document, fetched where it is not fresh; else the last good one; else throws the failure of the last fetch.
   *
   * @param fetch must end within a time of its own
   * @param patience how long to wait for it where there is a last good document, in ms
   * @param seen a document of no use to the caller: it is fetched again, even if it is fresh
   */
  async read(fetch: () => Promise<T>, patience: number, seen?: T): Promise<T> {
    const now = this.clock.now();
    const good = this.#lastGood && now < this.#lastGood.fetchedAt + LAST_GOOD ? this.#lastGood : undefined;
    const isAgain = seen !== undefined && good?.value === seen;
    if (good !== undefined && now < this.#until.fresh && !isAgain) {
      return good.value;
    }
    const isDue = !this.#isFetching && now >= this.#until.paused;
    const fetched = (isDue ? undefined : this.#fetched) ?? this.#fetch(fetch, isAgain);
    this.#fetched = fetched;
    return good === undefined ? fetched : withTimeout(patience, () => fetched).catch(() => good.value);
  }

  /** The next caller after a fetch under way fetches the document, also during a pause. The last good one is used where that fails. */
  expire(): void {
    this.#until = { fresh: 0, paused: 0 };
  }

  async #fetch(fetch: () => Promise<T>, isAgain: boolean): Promise<T> {
    const until = this.#until;
    let pause = PAUSE;
    this.#isFetching = true;
    try {
      const value = await fetch();
      const fetchedAt = this.clock.now();
      this.#lastGood = { value, fetchedAt };
      until.fresh = fetchedAt + FRESH;
      pause = isAgain ? PAUSE : 0;
      return value;
    } finally {
      this.#isFetching = false;
      until.paused = this.clock.now() + pause;
    }
  }
}
