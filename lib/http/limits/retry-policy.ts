import { mayRepeat, type Outcome } from '../outcome.js';

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
  if (!mayRepeat(outcome) || attempt >= attempts || retryAfterMs >= remaining) {
    return undefined;
  }
  return Math.max(retryAfterMs, Math.min(backOff(attempt, random), remaining / 2));
}

/** Milliseconds for which a reply asks to wait. A date counts by the clock of the service, which may differ from ours. */
export function retryAfterOf(outcome: Outcome, epochMs: number): number | undefined {
  const { 'retry-after': value, date } = outcome.kind === 'answered' ? outcome.headers : {};
  return parseRetryAfter(value, parseDate(date) || epochMs);
}

/** RFC 9110 §10.2.3: seconds, of some servers with a fraction, or a date in one of the three forms of §5.6.7. */
const SECONDS = /^\d+(?:\.\d*)?$/;
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? .*\d{2}:\d{2}:\d{2}/;

/**
 * Milliseconds of a `Retry-After` header, of several the longest; 0 for a date in the past, `undefined` where none is seconds or a
 * date.
 *
 * @param epochMs current time in ms since 1970, which a date is compared with
 */
export function parseRetryAfter(value: string | undefined, epochMs: number): number | undefined {
  // Between two headers: a comma, not that before the day of a date.
  const waits = (value ?? '').split(/,(?!\s*\d{2}[ -][a-z]{3})/i).map((one) => {
    const text = one.trim();
    return SECONDS.test(text) ? Math.ceil(Number(text) * 1000) : Math.max(0, parseDate(text) - epochMs);
  });
  const longest = Math.max(...waits.filter((wait) => !Number.isNaN(wait)));
  return longest < 0 ? undefined : Math.min(longest, Number.MAX_SAFE_INTEGER);
}

/** Milliseconds since 1970 of a date of HTTP; NaN where it is none. */
function parseDate(value: string | undefined): number {
  const text = value?.trim() ?? '';
  if (!HTTP_DATE.test(text)) {
    return Number.NaN;
  }
  // The asctime form has no zone and means GMT; Date.parse would read it as local time.
  return Date.parse(/[a-z]$|[+-]\d{4}$/i.test(text) ? text : `${text} GMT`);
}
