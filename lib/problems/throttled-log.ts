import { Logger } from '@nestjs/common';
import type { Clock } from '../time/clock.js';
import { FairCache } from '../time/fair-cache.js';

/** Causes that are remembered. The one seen last leaves last: another may be logged again before its time. */
const MAX_CAUSES = 1_000;

const LOGGER = new Logger('nestjs-exhibitor');

/**
 * Logs lines through Nest's `Logger`: one in an interval for each cause.
 *
 * @example
 * const log = new ThrottledLog(clock, 60_000);
 * log.warn(storeDown(error));
 */
export class ThrottledLog {
  /** Causes of which no line may be logged now. */
  readonly #logged: FairCache<true>;

  /** @param every shortest time between two lines of one cause, in ms */
  constructor(
    clock: Clock,
    private readonly every: number,
  ) {
    this.#logged = new FairCache(clock, MAX_CAUSES);
  }

  warn(line: string, cause = ''): void {
    if (this.#isDue(cause)) {
      LOGGER.warn(line);
    }
  }

  error(line: string | Error, cause = ''): void {
    if (this.#isDue(cause)) {
      LOGGER.error(line);
    }
  }

  /** Whether a line of this cause may be logged now. After `true` the next one has to wait. */
  #isDue(cause: string): boolean {
    if (this.#logged.get(cause) !== undefined) {
      return false;
    }
    this.#logged.set(cause, true, { ttl: this.every });
    return true;
  }
}
