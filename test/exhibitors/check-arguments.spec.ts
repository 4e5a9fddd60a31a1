import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { ExhibitorError } from '../../lib/errors/exhibitor.error.js';
import {
  checkCall,
  checkContactEmail,
  checkLookupFilter,
  listOptions,
  lookupOptions,
  snapshotOptions,
  streamOptions,
} from '../../lib/exhibitors/check-arguments.js';
import { checkEventId } from '../../lib/model/event-id.js';
import { anyText } from '../support/any-text.js';

function refusal(check: () => unknown): ExhibitorError {
  try {
    check();
  } catch (error) {
    if (error instanceof ExhibitorError) {
      return error;
    }
    throw error;
  }
  throw new Error('nothing was refused');
}

/** Values that a host without types may pass. */
const untyped = (value: unknown): never => value as never;

describe('an event id', () => {
  it('is any text of 1 to 128 bytes', () => {
    const unusual = ['a/b', '%2f', '50%', ' ', '...', 'a../..b', '.hidden', 'Messe München', '展会'];
    for (const eventId of ['world-2026', ...unusual, 'x'.repeat(128), 'ü'.repeat(64)]) {
      expect(checkEventId(eventId)).toBe(eventId);
    }
  });

  it.each([
    ['', 'eventId must be a non-empty string'],
    [undefined, 'eventId must be a non-empty string'],
    [7, 'eventId must be a non-empty string'],
    ['.', "eventId must be other than '.' and '..'"],
    ['..', "eventId must be other than '.' and '..'"],
    ['a\ud800', 'eventId must be well-formed Unicode'],
    ['x'.repeat(129), 'eventId must be 128 bytes of UTF-8 or less'],
    ['ü'.repeat(64) + 'x', 'eventId must be 128 bytes of UTF-8 or less'],
    ['a\u0000', 'eventId must be without control characters'],
    ['a\r\nX-Tenant-Id: b', 'eventId must be without control characters'],
    ['a\u007f', 'eventId must be without control characters'],
    ['a\u0085', 'eventId must be without control characters'],
  ])('cannot be %p', (eventId, message) => {
    expect(refusal(() => checkEventId(eventId))).toMatchObject({ code: 'invalid_argument', message });
  });
});

describe('a dot segment in an event id', () => {
  it.each([
    '../admin',
    'a/../b',
    'a/..',
    './a',
    'a/./b',
    '..\\admin',
    '..%2Fadmin',
    '..%2fadmin',
    '..%5Cadmin',
    'a%2F..%2Fb',
    '%2e%2e',
    '%2E%2e/admin',
    '.%2e%2fadmin',
    '%2e',
    '%252e%252e%252fadmin',
    '..%25252Fadmin',
  ])('is refused: %s', (eventId) => {
    expect(refusal(() => checkEventId(eventId))).toMatchObject({
      code: 'invalid_argument',
      message: "eventId must be without '.' and '..' between slashes",
    });
  });

  it('is looked for in linear time', () => {
    const worst = `${'%25'.repeat(40_000)}${'%2525'.repeat(20_000)}${'/.'.repeat(10)}x`;
    const start = performance.now();
    expect(refusal(() => checkEventId(worst))).toMatchObject({ code: 'invalid_argument' });
    expect(performance.now() - start).toBeLessThan(100);
  });
});

describe('a contact e-mail address', () => {
  it.each([
    'sam.several@example.com',
    "o'hara+fair@example.com",
    'zoë+fair@example.com',
    '用户@例え.jp',
    'admin@localhost',
    '"odd@local"@example.com',
    'UPPER@EXAMPLE.COM',
  ])('may be %s and is sent byte for byte', (address) => {
    expect(checkContactEmail(address)).toBe(address);
  });

  it.each([
    '',
    'nobody',
    '@example.com',
    'sam@',
    'a@b@example.com',
    'sam several@example.com',
    'sam@example.com\r\nX-Tenant-Id: other',
    'sam\u0000@example.com',
    'sam\ud800@example.com',
    undefined,
    null,
    42,
  ])('cannot be %p, and the error does not show it', (address) => {
    expect(refusal(() => checkContactEmail(address))).toMatchObject({
      code: 'invalid_argument',
      message: 'contactEmail must be an e-mail address',
    });
  });

  it('is always encoded in the path', () => {
    fc.assert(
      fc.property(anyText(), (value) => {
        try {
          checkContactEmail(value);
        } catch (error) {
          return error instanceof ExhibitorError;
        }
        return decodeURIComponent(encodeURIComponent(value)) === value;
      }),
    );
  });
});

describe('the options of a call', () => {
  it('have the defaults of the service and of the manual', () => {
    expect(checkCall(listOptions, undefined)).toEqual({ page: 1, itemsPerPage: 50 });
    expect(checkCall(streamOptions, {})).toEqual({
      itemsPerPage: 50,
      startPage: 1,
      maxPages: undefined,
      prefetch: 4,
      onDrift: 'error',
    });
    expect(checkCall(snapshotOptions, {})).toEqual({ itemsPerPage: 50, prefetch: 4, attempts: 3 });
    expect(checkCall(lookupOptions, {})).toEqual({ fresh: false });
  });

  it('accept both limits of every range', () => {
    expect(checkCall(listOptions, { page: 1, itemsPerPage: 1 })).toMatchObject({ page: 1, itemsPerPage: 1 });
    expect(checkCall(listOptions, { page: 99_999, itemsPerPage: 50 })).toMatchObject({ itemsPerPage: 50 });
    expect(checkCall(streamOptions, { prefetch: 16, maxPages: 1, deadline: 2_147_483_647 })).toMatchObject({
      prefetch: 16,
      maxPages: 1,
    });
  });

  it.each<[string, () => unknown, string]>([
    ['page 0', () => checkCall(listOptions, { page: 0 }), 'page must be a whole number of 1 or more'],
    ['page 1.5', () => checkCall(listOptions, { page: 1.5 }), 'page must be a whole number of 1 or more'],
    ['page NaN', () => checkCall(listOptions, { page: NaN }), 'page must be a whole number of 1 or more'],
    [
      'page "2"',
      () => checkCall(listOptions, { page: untyped('2') }),
      'page must be a whole number of 1 or more',
    ],
    [
      'page null',
      () => checkCall(listOptions, { page: untyped(null) }),
      'page must be a whole number of 1 or more',
    ],
    [
      'itemsPerPage 0',
      () => checkCall(listOptions, { itemsPerPage: 0 }),
      'itemsPerPage must be a whole number from 1 to 50',
    ],
    [
      'itemsPerPage 51',
      () => checkCall(streamOptions, { itemsPerPage: 51 }),
      'itemsPerPage must be a whole number from 1 to 50',
    ],
    [
      'prefetch 0',
      () => checkCall(streamOptions, { prefetch: 0 }),
      'prefetch must be a whole number from 1 to 16',
    ],
    [
      'prefetch 17',
      () => checkCall(streamOptions, { prefetch: 17 }),
      'prefetch must be a whole number from 1 to 16',
    ],
    [
      'maxPages 0',
      () => checkCall(streamOptions, { maxPages: 0 }),
      'maxPages must be a whole number of 1 or more',
    ],
    [
      'startPage 0',
      () => checkCall(streamOptions, { startPage: 0 }),
      'startPage must be a whole number of 1 or more',
    ],
    [
      'onDrift',
      () => checkCall(streamOptions, { onDrift: untyped('warn') }),
      "onDrift must be 'error' or 'ignore'",
    ],
    [
      'attempts 0',
      () => checkCall(snapshotOptions, { attempts: 0 }),
      'attempts must be a whole number from 1 to 100',
    ],
    [
      'deadline 0',
      () => checkCall(listOptions, { deadline: 0 }),
      'deadline must be a whole number from 1 to 2147483647',
    ],
    [
      'deadline 2^31',
      () => checkCall(lookupOptions, { deadline: 2 ** 31 }),
      'deadline must be a whole number from 1 to 2147483647',
    ],
    ['fresh', () => checkCall(lookupOptions, { fresh: untyped(1) }), 'fresh must be true or false'],
    ['signal', () => checkCall(listOptions, { signal: untyped({}) }), 'signal must be an AbortSignal'],
    ['tenant', () => checkCall(listOptions, { tenant: '' }), 'tenant must be the key of a tenant'],
    ['options', () => checkCall(listOptions, untyped('page=2')), 'options must be an object'],
    ['filter', () => checkLookupFilter({ tenant: untyped(7) }), 'tenant must be the key of a tenant'],
  ])('refuse a wrong %s by its name, with the expected values', (_name, check, message) => {
    expect(refusal(check)).toMatchObject({ code: 'invalid_argument', message });
  });
});
