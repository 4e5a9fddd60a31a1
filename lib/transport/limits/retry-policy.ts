import { isTransient, type Outcome } from '../outcome.js';

const FIRST_BACK_OFF = 100;
const LONGEST_BACK_OFF = 2_000;

/** Full jitter: anything from nothing to twice as much after each failure. @param attempt number of the one that failed */
export function backOff(attempt: number, chance: number): number {
  return chance * Math.min(LONGEST_BACK_OFF, FIRST_BACK_OFF * 2 ** (attempt - 1));
}

/** Where a call stands when an attempt has ended. */
export interface Standing {
  outcome: Outcome;
  /** Number of the attempt that ended, replays not counted. */
  attempt: number;
  /** How many there may be. */
  attempts: number;
  /** What the service asked for. */
  retryAfterMs: number | undefined;
  /** Milliseconds left of the deadline. */
  remaining: number;
  /** From 0 to 1. */
  chance: number;
}

/**
 * Milliseconds to wait before the next attempt; `undefined` where none is worth it. A wait the service asked for is
 * kept in full or not begun; our own is cut so that it leaves time for the attempt behind it.
 */
export function waitBeforeRetry(standing: Standing): number | undefined {
  const { outcome, attempt, attempts, retryAfterMs = 0, remaining, chance } = standing;
  if (!isTransient(outcome) || attempt >= attempts || retryAfterMs >= remaining) {
    return undefined;
  }
  return Math.max(retryAfterMs, Math.min(backOff(attempt, chance), remaining / 2));
}
