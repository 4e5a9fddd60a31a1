import { Logger } from '@nestjs/common';
import type { Clock } from '../time/clock.js';
import { createCache, type ExpiringCache } from '../time/expiring-cache.js';

/** Causes that are remembered. Beyond, the one that was seen least recently may be logged again before its time. */
const MAX_CAUSES = 10_000;

const LOGGER = new Logger('nestjs-exhibitor');

/**
 * Logs lines through Nest's `Logger`: one in an interval for each cause.
 *
 * @example
 * const log = new ThrottledLog(clock, 60_000);
 * log.warn(storeDown(error));
 */
export class ThrottledLog {
  /** {@link Clock.now} of the last line of each cause. */
  readonly #loggedAt: ExpiringCache<number>;

  /** @param every shortest time between two lines of one cause, in ms */
  constructor(
    private readonly clock: Clock,
    private readonly every: number,
  ) {
    this.#loggedAt = createCache(clock, { max: MAX_CAUSES });
  }

  /** Answers whether the line was logged. */
  warn(line: string, cause = ''): boolean {
    const isDue = this.#isDue(cause);
    if (isDue) {
      LOGGER.warn(line);
    }
    return isDue;
  }

  error(line: string | Error, cause = ''): void {
    if (this.#isDue(cause)) {
      LOGGER.error(line);
    }
  }

  /** Without a limit: for the end of a failure that was logged. */
  info(line: string): void {
    LOGGER.log(line);
  }

  /** Whether a line of this cause may be logged now. After `true` the next one has to wait. */
  #isDue(cause: string): boolean {
    const now = this.clock.now();
    const loggedAt = this.#loggedAt.get(cause);
    if (loggedAt !== undefined && now - loggedAt < this.every) {
      return false;
    }
    this.#loggedAt.set(cause, now);
    return true;
  }
}
