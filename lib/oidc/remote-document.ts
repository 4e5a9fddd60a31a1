import type { Clock } from '../time/clock.js';
import { withTimeout } from '../time/with-timeout.js';

/** How long a fetched document is used without fetching it again, in ms. */
const FRESH = 600_000;

/** How long the last good document is used while it cannot be fetched, in ms. */
const LAST_GOOD = 86_400_000;

/** How a caller fetches the document. */
export interface DocumentReader<T> {
  /** Must end within a time of its own. */
  fetch: () => Promise<T>;
  /** How long to wait for the fetch where there is a last good document, in ms. */
  patience: number;
}

/**
 * A document of a URL: fetched when first needed, by one request for concurrent callers, and used for 10 minutes. While it
 * cannot be fetched, the last good one is used, for a day.
 */
export class RemoteDocument<T> {
  readonly #clock: Clock;
  readonly #pause: number;
  /** Times in ms of {@link Clock.now}. */
  #current: { value: T; fetchedAt: number } | undefined;
  #freshUntil = Number.NEGATIVE_INFINITY;
  #pausedUntil = Number.NEGATIVE_INFINITY;
  #fetching: Promise<void> | undefined;
  #failure: unknown;

  /**
   * @param pause time in ms without fetches after one that failed, and after one of {@link readAgain}. The first fetch and the
   * regular ones cause no pause: what changes right after them must be found at once.
   */
  constructor(clock: Clock, pause: number) {
    this.#clock = clock;
    this.#pause = pause;
  }

  /** The document, fetched where it is not fresh; else the last good one; else throws the failure of the last fetch. */
  async read(reader: DocumentReader<T>): Promise<T> {
    if (this.#clock.now() >= this.#freshUntil) {
      await this.#fetchUnlessPaused(reader, false);
    }
    return this.#usable();
  }

  /** As {@link read}, for a caller to whom `seen` is of no use, which may be fresh. */
  async readAgain(seen: T, reader: DocumentReader<T>): Promise<T> {
    if (this.#current?.value === seen) {
      await this.#fetchUnlessPaused(reader, true);
    }
    return this.#usable();
  }

  /** The next caller fetches the document, also during a pause. The last good one is used where that fails. */
  expire(): void {
    this.#freshUntil = Number.NEGATIVE_INFINITY;
    this.#pausedUntil = Number.NEGATIVE_INFINITY;
  }

  async #fetchUnlessPaused({ fetch, patience }: DocumentReader<T>, isAgain: boolean): Promise<void> {
    if (this.#fetching === undefined && this.#clock.now() < this.#pausedUntil) {
      return;
    }
    this.#fetching ??= this.#fetch(fetch, isAgain);
    const fetching = this.#fetching;
    // A fetch never rejects. After a timeout there is a last good document.
    await (this.#hasLastGood ? withTimeout(patience, () => fetching).catch(() => undefined) : fetching);
  }

  async #fetch(fetch: () => Promise<T>, isAgain: boolean): Promise<void> {
    try {
      const value = await fetch();
      const fetchedAt = this.#clock.now();
      this.#current = { value, fetchedAt };
      this.#freshUntil = fetchedAt + FRESH;
      this.#failure = undefined;
    } catch (error) {
      this.#failure = error;
    } finally {
      this.#fetching = undefined;
    }
    if (isAgain || this.#failure !== undefined) {
      this.#pausedUntil = this.#clock.now() + this.#pause;
    }
  }

  get #hasLastGood(): boolean {
    return this.#current !== undefined && this.#clock.now() - this.#current.fetchedAt < LAST_GOOD;
  }

  #usable(): T {
    if (this.#current === undefined || !this.#hasLastGood) {
      throw this.#failure;
    }
    return this.#current.value;
  }
}
