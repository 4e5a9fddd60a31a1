import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import type { Outcome } from '../../lib/transport/outcome.js';
import {
  backOff,
  parseRetryAfter,
  RetryBudget,
  waitBeforeRetry,
  type AttemptEnd,
} from '../../lib/transport/limits/retry-policy.js';

const answered = (status: number): Outcome => ({
  kind: 'answered',
  status,
  headers: {},
  body: undefined,
});
const failed = (why: 'network' | 'timeout' | 'malformed' | 'over'): Outcome => ({
  kind: 'failed',
  why,
  message: '',
});

const standing = (given: Partial<AttemptEnd>): AttemptEnd => ({
  outcome: answered(503),
  attempt: 1,
  attempts: 3,
  retryAfterMs: undefined,
  remaining: 10_000,
  random: 0.5,
  ...given,
});
const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

describe('the wait before a retry', () => {
  it('is random between 0 and 100 ms, doubled after each failure, at most 2 s', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 40 }), chance, (attempt, luck) => {
        const most = Math.min(2_000, 100 * 2 ** (attempt - 1));
        expect(backOff(attempt, luck)).toBeGreaterThanOrEqual(0);
        expect(backOff(attempt, luck)).toBeLessThanOrEqual(most);
        expect(backOff(attempt, 1)).toBe(most);
      }),
    );
  });

  it.each([408, 429, 500, 502, 503, 504])('follows %i', (status) => {
    expect(waitBeforeRetry(standing({ outcome: answered(status) }))).toBe(50);
  });

  it.each([200, 400, 401, 403, 404, 409, 422, 501, 505])('does not follow %i', (status) => {
    expect(waitBeforeRetry(standing({ outcome: answered(status) }))).toBeUndefined();
  });

  it('follows a broken connection and a stalled attempt, not a malformed reply', () => {
    expect(waitBeforeRetry(standing({ outcome: failed('network') }))).toBe(50);
    expect(waitBeforeRetry(standing({ outcome: failed('timeout') }))).toBe(50);
    expect(waitBeforeRetry(standing({ outcome: failed('malformed') }))).toBeUndefined();
    expect(waitBeforeRetry(standing({ outcome: failed('over') }))).toBeUndefined();
  });

  it('is not started where no attempt is left', () => {
    expect(waitBeforeRetry(standing({ attempt: 3 }))).toBeUndefined();
  });

  it('is at least Retry-After, and not started where that does not fit', () => {
    fc.assert(
      fc.property(
        fc.nat(20_000),
        fc.integer({ min: 1, max: 20_000 }),
        chance,
        (retryAfterMs, remaining, luck) => {
          const wait = waitBeforeRetry(standing({ retryAfterMs, remaining, random: luck }));
          if (retryAfterMs >= remaining) {
            expect(wait).toBeUndefined();
          } else {
            expect(wait).toBeGreaterThanOrEqual(retryAfterMs);
            expect(wait).toBeLessThan(remaining);
          }
        },
      ),
    );
  });
});

describe('the retry budget', () => {
  const retries = (budget: RetryBudget): number => {
    for (let taken = 0; ; taken += 1) {
      if (!budget.take()) {
        return taken;
      }
    }
  };

  it('allows 100 retries, then one for each five successes', () => {
    const budget = new RetryBudget();
    expect(retries(budget)).toBe(100);
    for (const gained of [0, 0, 0, 0, 1]) {
      budget.succeeded();
      expect(retries(budget)).toBe(gained);
    }
  });

  it('never exceeds its maximum', () => {
    const budget = new RetryBudget();
    budget.succeeded();
    expect(retries(budget)).toBe(100);
  });
});

const NOW = Date.UTC(2026, 8, 1, 12, 0, 0);

describe('Retry-After', () => {
  it('is a number of seconds', () => {
    fc.assert(
      fc.property(fc.nat(1_000_000), (seconds) => {
        expect(parseRetryAfter(` ${seconds} `, NOW)).toBe(seconds * 1000);
      }),
    );
  });

  it('is a date in the form of HTTP, RFC 850 or asctime, all in GMT', () => {
    for (const date of [
      'Tue, 01 Sep 2026 12:00:30 GMT',
      'Tuesday, 01-Sep-26 12:00:30 GMT',
      'Tue Sep  1 12:00:30 2026',
    ]) {
      expect(parseRetryAfter(date, NOW)).toBe(30_000);
    }
  });

  it('is zero for a date in the past', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 10_000_000 }), (seconds) => {
        expect(parseRetryAfter(new Date(NOW - seconds * 1000).toUTCString(), NOW)).toBe(0);
      }),
    );
  });

  it.each(['', '-1', '1.5', '1e3', '0x10', 'soon', '2026-09-01T12:00:30Z', 'Tue, 99 Xyz 2026 12:00:30 GMT'])(
    'is undefined where it is malformed: %p',
    (value) => {
      expect(parseRetryAfter(value, NOW)).toBeUndefined();
    },
  );

  it('is a finite number or undefined for any input', () => {
    fc.assert(
      fc.property(fc.string(), (value) => {
        const asked = parseRetryAfter(value, NOW) ?? 0;
        expect(asked >= 0 && Number.isFinite(asked)).toBe(true);
      }),
    );
    expect(parseRetryAfter('9'.repeat(400), NOW)).toBe(Number.MAX_SAFE_INTEGER);
  });
});
