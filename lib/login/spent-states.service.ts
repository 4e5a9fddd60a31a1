import { Inject, Injectable } from '@nestjs/common';
import { Clock } from '../call/clock.js';
import { createCache, type ExpiringCache } from '../call/expiring-cache.js';
import { SharedValues } from '../store/shared-values.service.js';

/** States that are remembered in one process. */
const MAX = 100_000;

/** Login states that were used: in this process the last 100,000, across processes with a `store`. */
@Injectable()
export class SpentStates {
  readonly #spent: ExpiringCache<true>;

  constructor(
    @Inject(SharedValues) private readonly values: SharedValues,
    @Inject(Clock) clock: Clock,
  ) {
    this.#spent = createCache(clock, { max: MAX });
  }

  /**
   * Spends a state. Answers false where it was used before. A store that is down refuses no login.
   *
   * @param ttl how long its pending login can still be redeemed, in ms
   */
  async spend(state: string, ttl: number): Promise<boolean> {
    return (
      this.spendHere(state, ttl) &&
      (await this.values.write('spent-state', state, '1', ttl, { ifAbsent: true })) !== false
    );
  }

  /** As {@link spend}, in this process only: where nothing can be redeemed, nothing is left in the store. */
  spendHere(state: string, ttl: number): boolean {
    if (this.#spent.has(state)) {
      return false;
    }
    this.#spent.set(state, true, { ttl });
    return true;
  }
}
