import type { SharedStore } from '../model/shared-store.interface.js';
import { storeDown } from '../problems/host-problems.js';
import { ThrottledLog } from '../problems/throttled-log.js';
import type { Clock } from '../time/clock.js';
import { withTimeout } from '../time/with-timeout.js';

/** Time limit of one operation of the store, in ms. A slower store counts as down. */
const MAX_WAIT = 1_000;

/** A failure that took so long, in ms, is silence: our time limit, or a shorter one of the client. */
const SILENCE = 100;

/** After silence the store is not asked for this long, in ms, so that not every call waits for it. */
const PAUSE_AFTER_SILENCE = 5_000;

/** Shortest time between two warnings, in ms. */
const WARN_EVERY = 10_000;

/** The answer of the store. `undefined` in place of it: the store is down. */
export interface StoreAnswer<R> {
  readonly answer: R;
}

/**
 * The `store` of the host, with a time limit. A store that fails or does not answer within a second is down: no answer and
 * a warning, never a failure of the call. Where that took time, it rests for 5 s; then one operation probes it, while the
 * others still do without.
 */
export class GuardedStore {
  readonly #log: ThrottledLog;
  /** {@link Clock.now} before which the store is not asked; `undefined` where it answers. */
  #restsUntil: number | undefined;

  constructor(
    private readonly store: SharedStore,
    private readonly clock: Clock,
  ) {
    this.#log = new ThrottledLog(clock, WARN_EVERY);
  }

  /**
   * Runs an operation, unless the store rests.
   *
   * @param options `evenAtRest`: also while it rests
   */
  async attempt<R>(
    operation: (store: SharedStore) => Promise<R>,
    { evenAtRest = false } = {},
  ): Promise<StoreAnswer<R> | undefined> {
    if (!evenAtRest && !this.#mayAsk()) {
      return undefined;
    }
    const began = this.clock.now();
    try {
      const answer = await withTimeout(MAX_WAIT, () => operation(this.store));
      this.#restsUntil = undefined;
      return { answer };
    } catch (error) {
      const now = this.clock.now();
      this.#restsUntil = now - began < SILENCE ? undefined : now + PAUSE_AFTER_SILENCE;
      this.#log.warn(storeDown(error));
      return undefined;
    }
  }

  /** False while the store rests. The first operation after it is a probe: until it ends, there is no other. */
  #mayAsk(): boolean {
    const now = this.clock.now();
    if (this.#restsUntil === undefined) {
      return true;
    }
    if (now < this.#restsUntil) {
      return false;
    }
    this.#restsUntil = now + MAX_WAIT;
    return true;
  }
}
