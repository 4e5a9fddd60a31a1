import type { Clock } from './clock.js';

/** Causes that are remembered. The oldest one leaves first: it may then be logged again before its time. */
const MAX_CAUSES = 1_000;

/**
 * Limits how often a line is logged: once in an interval for each cause.
 *
 * @example
 * if (throttle.allows('issuer')) {
 *   logger.warn(line);
 * }
 */
export class LogThrottle {
  readonly #clock: Clock;
  readonly #every: number;
  /** {@link Clock.now} of the last line of each cause, the oldest first. */
  readonly #loggedAt = new Map<string, number>();

  /** @param every shortest time between two lines of one cause, in ms */
  constructor(clock: Clock, every: number) {
    this.#clock = clock;
    this.#every = every;
  }

  /** Whether a line of this cause may be logged now. After `true` the next one has to wait. */
  allows(cause = ''): boolean {
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
