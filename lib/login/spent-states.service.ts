import { Inject, Injectable } from '@nestjs/common';
import { Clock } from '../call/clock.js';
import { createCache, type ExpiringCache } from '../call/expiring-cache.js';
import { SharedValues } from '../store/shared-values.service.js';

/** States that are remembered in one process. */
const MAX = 100_000;

/** Login states that were used, by their id: in this process the last 100,000, across processes with a `store`. */
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
   * Spends a state. Returns false where it was used before. A store that is down refuses no login, nor one that is full and answers so.
   *
   * @param ttl how long its login can still be finished, in ms
   */
  async spend(id: string, ttl: number): Promise<boolean> {
    if (!this.spendHere(id, ttl)) {
      return false;
    }
    const isWritten = await this.values.write('spent-state', id, '1', ttl, { ifAbsent: true });
    // A store that is full returns false, too: then nothing is there.
    return isWritten !== false || (await this.values.read('spent-state', id)) === undefined;
  }

  async isSpent(id: string): Promise<boolean> {
    return this.#spent.has(id) || typeof (await this.values.read('spent-state', id)) === 'string';
  }

  /** As {@link spend}, in this process only: where nothing can be redeemed, nothing is left in the store. */
  spendHere(id: string, ttl: number): boolean {
    if (this.#spent.has(id)) {
      return false;
    }
    this.#spent.set(id, true, { ttl });
    return true;
  }
}
