import { isTransient, type Outcome } from '../outcome.js';

const FIRST_BACK_OFF = 100;
const LONGEST_BACK_OFF = 2_000;

/**
 * Milliseconds to wait after a failed attempt: random between 0 and min(2 s, 100 ms · 2ⁿ⁻¹) (full jitter).
 *
 * @param attempt number n of the attempt that failed, from 1
 * @param random from 0 to 1
 */
export function backOff(attempt: number, random: number): number {
  return random * Math.min(LONGEST_BACK_OFF, FIRST_BACK_OFF * 2 ** (attempt - 1));
}

export interface AttemptEnd {
  outcome: Outcome;
  /** Number of the attempt, from 1. Replays on a fresh connection are not counted. */
  attempt: number;
  attempts: number;
  /** Wait that the service asked for. */
  retryAfterMs: number | undefined;
  /** Milliseconds left of the deadline. */
  remaining: number;
  /** From 0 to 1. */
  random: number;
}

/**
 * Milliseconds to wait before the next attempt; `undefined` where there is none. A wait that the service asked for must fit
 * the deadline as a whole. Our own back-off takes at most half of the time left, so that the next attempt has time.
 */
export function waitBeforeRetry(end: AttemptEnd): number | undefined {
  const { outcome, attempt, attempts, retryAfterMs = 0, remaining, random } = end;
  if (!isTransient(outcome) || attempt >= attempts || retryAfterMs >= remaining) {
    return undefined;
  }
  return Math.max(retryAfterMs, Math.min(backOff(attempt, random), remaining / 2));
}

/** RFC 9110 §10.2.3: whole seconds, or a date in one of the three forms of §5.6.7. */
const SECONDS = /^\d+$/;
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? .*\d{2}:\d{2}:\d{2}/;

/**
 * Milliseconds of a `Retry-After` header; 0 for a date in the past, `undefined` where it is neither seconds nor a date.
 *
 * @param epochMs current time in ms since 1970, which a date is compared with
 */
export function parseRetryAfter(value: string | undefined, epochMs: number): number | undefined {
  const text = value?.trim();
  if (text === undefined) {
    return undefined;
  }
  if (SECONDS.test(text)) {
    return Math.min(Number(text) * 1000, Number.MAX_SAFE_INTEGER);
  }
  if (!HTTP_DATE.test(text)) {
    return undefined;
  }
  // The asctime form has no zone and means GMT; Date.parse would read it as local time.
  const date = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
  return Number.isNaN(date) ? undefined : Math.max(0, date - epochMs);
}
