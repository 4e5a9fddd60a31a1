import { Logger } from '@nestjs/common';
import type { Clock } from '../time/clock.js';

/** Causes that are remembered. The oldest one leaves first: it may then be logged again before its time. */
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
  readonly #clock: Clock;
  readonly #every: number;
  /** {@link Clock.now} of the last line of each cause, the oldest first. */
  readonly #loggedAt = new Map<string, number>();

  /** @param every shortest time between two lines of one cause, in ms */
  constructor(clock: Clock, every: number) {
    this.#clock = clock;
    this.#every = every;
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
    const now = this.#clock.now();
    const last = this.#loggedAt.get(cause);
    if (last !== undefined && now - last < this.#every) {
      return false;
    }
    this.#loggedAt.delete(cause);
    this.#loggedAt.set(cause, now);
    const [oldest] = this.#loggedAt.size > MAX_CAUSES ? this.#loggedAt.keys() : [];
    if (oldest !== undefined) {
      this.#loggedAt.delete(oldest);
    }
    return true;
  }
}
