import type { Clock } from '../time/clock.js';
import { withTimeout } from '../time/with-timeout.js';

/** How long a fetched document is used without fetching it again, in ms. */
const FRESH = 600_000;

/** How long the last good document is used while it cannot be fetched, in ms. */
const LAST_GOOD = 86_400_000;

/**
 * Time in ms without fetches after one that failed, and after one because the document was of no use to a caller. Any token can
 * cause such a fetch, so that forged tokens must not cause a flood of them. The first fetch and the regular ones cause no pause:
 * what changes right after them must be found at once.
 */
const PAUSE = 30_000;

/**
 * A document of a URL: fetched when first needed, by one request for concurrent callers, and used for 10 minutes. While it
 * cannot be fetched, the last good one is used, for a day.
 */
export class RemoteDocument<T> {
  /** Times in ms of {@link Clock.now}. */
  #current: { value: T; fetchedAt: number } | undefined;
  #freshUntil = Number.NEGATIVE_INFINITY;
  #pausedUntil = Number.NEGATIVE_INFINITY;
  #fetching: Promise<void> | undefined;
  #failure: unknown;

  constructor(private readonly clock: Clock) {}

  /**
   * The document, fetched where it is not fresh; else the last good one; else throws the failure of the last fetch.
   *
   * @param fetch must end within a time of its own
   * @param patience how long to wait for it where there is a last good document, in ms
   * @param seen a document of no use to the caller: it is fetched again, even if it is fresh
   */
  async read(fetch: () => Promise<T>, patience: number, seen?: T): Promise<T> {
    const isAgain = seen !== undefined && this.#current?.value === seen;
    const now = this.clock.now();
    const isPaused = this.#fetching === undefined && now < this.#pausedUntil;
    if ((isAgain || now >= this.#freshUntil) && !isPaused) {
      this.#fetching ??= this.#fetch(fetch, isAgain);
      const fetching = this.#fetching;
      // A fetch never rejects. After a timeout there is a last good document.
      await (this.#hasLastGood ? withTimeout(patience, () => fetching).catch(() => undefined) : fetching);
    }
    if (this.#current === undefined || !this.#hasLastGood) {
      throw this.#failure;
    }
    return this.#current.value;
  }

  /** The next caller fetches the document, also during a pause. The last good one is used where that fails. */
  expire(): void {
    this.#freshUntil = Number.NEGATIVE_INFINITY;
    this.#pausedUntil = Number.NEGATIVE_INFINITY;
  }

  async #fetch(fetch: () => Promise<T>, isAgain: boolean): Promise<void> {
    try {
      const value = await fetch();
      const fetchedAt = this.clock.now();
      this.#current = { value, fetchedAt };
      this.#freshUntil = fetchedAt + FRESH;
      this.#failure = undefined;
    } catch (error) {
      this.#failure = error;
    } finally {
      this.#fetching = undefined;
    }
    if (isAgain || this.#failure !== undefined) {
      this.#pausedUntil = this.clock.now() + PAUSE;
    }
  }

  get #hasLastGood(): boolean {
    return this.#current !== undefined && this.clock.now() - this.#current.fetchedAt < LAST_GOOD;
  }
}
