import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { parseRetryAfter } from '../../lib/transport/limits/retry-policy.js';

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
