import { createLocalJWKSet, type CompactVerifyGetKey, type JSONWebKeySet, type LocalJWKSet } from 'jose';
import { isExhibitorError } from '../errors/exhibitor.error.js';
import type { Clock } from '../time/clock.js';
import { TimeoutError, withTimeout } from '../time/with-timeout.js';
import { filterJwks } from './filter-jwks.js';

/** How long a fetched JWKS is used without fetching it again. */
const FRESH_MS = 600_000;
/** How long the last good JWKS is used while it cannot be fetched. */
const LAST_GOOD_MS = 86_400_000;
/**
 * Pause after a failure, and after a fetch that an unverified token caused. The first fetch and the regular ones cause no
 * pause: a key that is rotated right after them must be found at once.
 */
const PAUSE_MS = 30_000;

/** Fetches the JSON of the keys URL within so many milliseconds, else fails by `deadline_exceeded`. */
export type FetchJwks = (within: number) => Promise<unknown>;

/** A fetch under way. */
interface Fetching {
  done: Promise<void>;
  /** Milliseconds it may take. */
  within: number;
}

interface KeySet {
  jwks: JSONWebKeySet;
  /** jose imports each key once per set. */
  keys: LocalJWKSet;
  /** In ms of {@link Clock.now}. */
  fetchedAt: number;
}

/** The JWKS of a URL: fetched when first needed, by one request for concurrent callers, and kept while the fetch fails. */
export class RemoteJwks {
  readonly #clock: Clock;
  #current: KeySet | undefined;
  #freshUntil = Number.NEGATIVE_INFINITY;
  #pausedUntil = Number.NEGATIVE_INFINITY;
  #fetching: Fetching | undefined;
  #failure: unknown;
  /** Time that the failed fetch had, where it ended for want of time. In ms. */
  #timedOutAfter = Number.POSITIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * The keys to verify a token with. They are fetched again where none has this `kid`.
   *
   * @param patience milliseconds for a fetch. The last good keys, if any, are used thereafter.
   */
  async get(kid: string | undefined, fetch: FetchJwks, patience: number): Promise<LocalJWKSet> {
    if (this.#clock.now() >= this.#freshUntil) {
      await this.#fetchUnlessPaused(fetch, patience);
    }
    if (this.#lacks(kid)) {
      await this.#refetch(fetch, patience);
    }
    const usable = this.#usable();
    if (usable === undefined) {
      throw this.#failure;
    }
    return usable.keys;
  }

  /**
   * The keys after a signature that fits none of `used`: fetched again, unless that was done before. `undefined` where there
   * are no newer ones.
   */
  async newerThan(
    used: CompactVerifyGetKey,
    fetch: FetchJwks,
    patience: number,
  ): Promise<LocalJWKSet | undefined> {
    if (this.#usable()?.keys === used) {
      await this.#refetch(fetch, patience);
    }
    const usable = this.#usable();
    return usable?.keys === used ? undefined : usable?.keys;
  }

  /** The next caller fetches the keys. The last good ones are used where that fails. */
  expire(): void {
    this.#freshUntil = Number.NEGATIVE_INFINITY;
    this.#pausedUntil = Number.NEGATIVE_INFINITY;
  }

  #lacks(kid: string | undefined): boolean {
    const usable = this.#usable();
    return usable !== undefined && kid !== undefined && usable.jwks.keys.every((key) => key.kid !== kid);
  }

  #usable(): KeySet | undefined {
    const current = this.#current;
    return current !== undefined && this.#clock.now() - current.fetchedAt < LAST_GOOD_MS
      ? current
      : undefined;
  }

  /** A fetch that any token can cause: followed by a pause, so that forged tokens cause no flood of them. */
  async #refetch(fetch: FetchJwks, patience: number): Promise<void> {
    if (await this.#fetchUnlessPaused(fetch, patience)) {
      this.#pause();
    }
  }

  /** Answers false where nothing was fetched because of the pause. */
  async #fetchUnlessPaused(fetch: FetchJwks, patience: number): Promise<boolean> {
    const underWay = this.#fetching;
    if (underWay === undefined && this.#isPausedFor(patience)) {
      return false;
    }
    const fetching = underWay ?? this.#start(fetch, patience);
    const isLonger = this.#usable() !== undefined && fetching.within > patience;
    await (isLonger ? waitFor(fetching.done, patience) : fetching.done);
    const isToBeRepeated = underWay !== undefined && this.#hadLessTimeThan(patience);
    return isToBeRepeated ? this.#fetchUnlessPaused(fetch, patience) : true;
  }

  #isPausedFor(patience: number): boolean {
    return this.#clock.now() < this.#pausedUntil && !this.#hadLessTimeThan(patience);
  }

  /** True where the last fetch ended by a deadline that was shorter than this caller's: it says nothing about the keys. */
  #hadLessTimeThan(patience: number): boolean {
    return this.#failure !== undefined && this.#timedOutAfter < patience;
  }

  #start(fetch: FetchJwks, within: number): Fetching {
    const done = this.#fetch(fetch, within).finally(() => {
      this.#fetching = undefined;
    });
    this.#fetching = { done, within };
    return this.#fetching;
  }

  async #fetch(fetch: FetchJwks, within: number): Promise<void> {
    try {
      const jwks = await filterJwks(await fetch(within));
      const fetchedAt = this.#clock.now();
      this.#current = { jwks, keys: createLocalJWKSet(jwks), fetchedAt };
      this.#freshUntil = fetchedAt + FRESH_MS;
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
