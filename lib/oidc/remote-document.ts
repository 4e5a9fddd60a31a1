import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import type { Clock } from '../time/clock.js';
import { TimeoutError, withTimeout } from '../time/with-timeout.js';

/** How long a fetched document is used without fetching it again. */
const FRESH_MS = 600_000;
/** How long the last good document is used while it cannot be fetched. */
const LAST_GOOD_MS = 86_400_000;
/**
 * Pause after a failure, and after a fetch that an unverified token caused. The first fetch and the regular ones cause no
 * pause: a key that is rotated right after them must be found at once.
 */
const PAUSE_MS = 30_000;

/** Fetches a document within so many milliseconds, else fails by `deadline_exceeded`. */
export type FetchDocument<T> = (within: number) => Promise<T>;

/** A fetch under way. */
interface Fetching {
  done: Promise<void>;
  /** Milliseconds it may take. */
  within: number;
}

/**
 * A document of a URL: fetched when first needed, by one request for concurrent callers, and kept while the fetch fails. The
 * `patience` of a caller is the time in ms for a fetch; the last good document, if any, is used thereafter.
 */
export class RemoteDocument<T> {
  readonly #clock: Clock;
  /** `at`: in ms of {@link Clock.now}. */
  #current: { value: T; at: number } | undefined;
  #freshUntil = Number.NEGATIVE_INFINITY;
  #pausedUntil = Number.NEGATIVE_INFINITY;
  #fetching: Fetching | undefined;
  #failure: unknown;
  /** Time that the failed fetch had, where it ended for want of time. In ms. */
  #timedOutAfter = Number.POSITIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The document, or the last good one; `undefined` where there is none. */
  get usable(): T | undefined {
    const current = this.#current;
    return current !== undefined && this.#clock.now() - current.at < LAST_GOOD_MS ? current.value : undefined;
  }

  /** The document, or the last good one; else throws the failure of its fetch. */
  require(): T {
    const { usable } = this;
    if (usable === undefined) {
      throw this.#failure;
    }
    return usable;
  }

  /** Fetches the document where it is not fresh. */
  async refresh(fetch: FetchDocument<T>, patience: number): Promise<void> {
    if (this.#clock.now() >= this.#freshUntil) {
      await this.#fetchUnlessPaused(fetch, patience);
    }
  }

  /** A fetch that any token can cause: followed by a pause, so that forged tokens cause no flood of them. */
  async refetch(fetch: FetchDocument<T>, patience: number): Promise<void> {
    if (await this.#fetchUnlessPaused(fetch, patience)) {
      this.#pause();
    }
  }

  /** The next caller fetches the document. The last good one is used where that fails. */
  expire(): void {
    this.#freshUntil = Number.NEGATIVE_INFINITY;
    this.#pausedUntil = Number.NEGATIVE_INFINITY;
  }

  /** Answers false where nothing was fetched because of the pause. */
  async #fetchUnlessPaused(fetch: FetchDocument<T>, patience: number): Promise<boolean> {
    const underWay = this.#fetching;
    if (underWay === undefined && this.#isPausedFor(patience)) {
      return false;
    }
    const fetching = underWay ?? this.#start(fetch, patience);
    const isLonger = this.usable !== undefined && fetching.within > patience;
    await (isLonger ? waitFor(fetching.done, patience) : fetching.done);
    const isToBeRepeated = underWay !== undefined && this.#hadLessTimeThan(patience);
    return isToBeRepeated ? this.#fetchUnlessPaused(fetch, patience) : true;
  }

  #isPausedFor(patience: number): boolean {
    return this.#clock.now() < this.#pausedUntil && !this.#hadLessTimeThan(patience);
  }

  /** True where the last fetch ended by a deadline that was shorter than this caller's: it says nothing about the document. */
  #hadLessTimeThan(patience: number): boolean {
    return this.#failure !== undefined && this.#timedOutAfter < patience;
  }

  #start(fetch: FetchDocument<T>, within: number): Fetching {
    const done = this.#fetch(fetch, within).finally(() => {
      this.#fetching = undefined;
    });
    this.#fetching = { done, within };
    return this.#fetching;
  }

  async #fetch(fetch: FetchDocument<T>, within: number): Promise<void> {
    try {
      const value = await fetch(within);
      const at = this.#clock.now();
      this.#current = { value, at };
      this.#freshUntil = at + FRESH_MS;
      this.#failure = undefined;
    } catch (error) {
      this.#failure = error;
      const isTimeUp = isExhibitorError(error) && error.code === 'deadline_exceeded';
      this.#timedOutAfter = isTimeUp ? within : Number.POSITIVE_INFINITY;
      this.#pause();
    }
  }

  #pause(): void {
    this.#pausedUntil = this.#clock.now() + PAUSE_MS;
  }
}

async function waitFor(fetching: Promise<void>, patience: number): Promise<void> {
  try {
    await withTimeout(patience, () => fetching);
  } catch (error) {
    if (!(error instanceof TimeoutError)) {
      throw error;
    }
  }
}
