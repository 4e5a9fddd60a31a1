import { describe, expect, it } from '@jest/globals';
import {
  checkCall,
  checkLookupFilter,
  listOptions,
  lookupOptions,
  snapshotOptions,
  streamOptions,
} from '../../lib/exhibitors/call-runner.service.js';
import { checkContactEmail, checkEventId } from '../../lib/model/path-parameters.js';
import { contactEmail } from '../../lib/oidc/user-info.service.js';

/** The error of a check: its code is that of every refusal. */
function expectRefusal(check: () => unknown, message: string): void {
  expect(check).toThrow(
    expect.objectContaining({ name: 'ExhibitorError', code: 'invalid_argument', message }),
  );
}

/** What a login takes of the claims `email` of these sources. */
const atLogin = (...emails: unknown[]) =>
  contactEmail(
    emails.map((email) => ({ email })),
    { emailClaim: 'email' },
  );

describe('an event id', () => {
  it('is any text of 1 to 128 bytes', () => {
    const unusual = [' ', '...', '…', '.hidden', 'a&b=c+d:e,f', '½', 'Messe München', '展会'];
    for (const eventId of ['world-2026', ...unusual, 'x'.repeat(128), 'ü'.repeat(64)]) {
      expect(checkEventId(eventId)).toBe(eventId);
    }
  });

  it.each<[expected: string, values: unknown[]]>([
    ['a non-empty string', ['', undefined, 7]],
    ['well-formed Unicode', ['a\ud800']],
    ['128 bytes of UTF-8 or less', ['x'.repeat(129), `${'ü'.repeat(64)}x`]],
    ['without control characters', ['a\u0000', 'a\r\nX-Tenant-Id: b', 'a\u007f', 'a\u0085']],
  ])('must be %s', (expected, values) => {
    values.forEach((value) => expectRefusal(() => checkEventId(value), `eventId must be ${expected}`));
  });
});

/** Forms that lead to another path where something decodes it, in event ids and in addresses: `*` stands for any name. */
const UNSAFE = String.raw`
  ./* ../* /* */ a//* a/./* a/../* */.. ..\* \* ..;/* a/;x/* .;a;b/* ;* ..%2F* ..%2f* ..%5C* %2F*
  *%2f a%2F..%2F* %2e%2e/* .%2E%2f* ..%3b/* ..%253B%252f* %252e%252e%252f* ..%25252F*
  %2%65%2%65%2%46* %%32%65/* .%09./* .%0A.%2f* %c0%ae%c0%ae%c0%af* a%C0%AF..%C0%AF* %25c0%25ae/*
  %e0%80%ae%e0%80%ae/* %f0%80%80%ae./* ．．/* ‥/* ․․／*
`
  .trim()
  .split(/\s+/);
/** Forms that some servers read as the address in place of `*`: it ends at a character that ends no address. */
const CUT = String.raw`
  *; *;x *%3Bx=1 *%253b *?x *%3fx *#x *%23 *%00 *%2509x ..%00/* %20* *%20 *%2520 *；x
`
  .trim()
  .split(/\s+/);

describe('the characters that split, cut or decode a path', () => {
  const others = ['.', '..', '‥', '%2e', '/', '*/contactEmail/victim@example.com', '*℅x', '50%', '5﹪*'];

  const ALIKE = 'characters that some systems read as one of these';

  // U+2044, U+2215 and U+2216.
  const likeSlashes = ['a⁄*', '*∕contactEmail∕x', '..∖*'];

  it.each([...UNSAFE, ...CUT, ...others, ...likeSlashes, 'a﹨*', '*＃x'])(
    'are refused in an event id: %s',
    (form) => {
      const eventId = form.replace('*', 'world-2026');
      const message = String.raw`eventId must be other than '.' and '..', without / \ % ? # ; and without ${ALIKE}`;
      expectRefusal(() => checkEventId(eventId), message);
    },
  );

  it.each([...UNSAFE, ...CUT, ...likeSlashes, 'a/*', '*/x', 'a;*', '50%25*', 'x?*'])(
    'are refused in an address: %s',
    (form) => {
      const address = form.replace('*', 'victim@example.com');
      const message = String.raw`contactEmail must be an e-mail address without / \ % ? # ; and without ${ALIKE}`;
      expectRefusal(() => checkContactEmail(address), message);
      expectRefusal(() => checkLookupFilter({ contactEmail: address }), message);
      expect(atLogin(address)).toBeUndefined();
      expect(atLogin(address, 'sam@example.com')).toBe('sam@example.com');
    },
  );
});

describe('a contact e-mail address', () => {
  it.each([
    'sam.several@example.com',
    "o'hara+fair@example.com",
    '...@example.com',
    'zoë+fair@example.com',
    '用户@例え.jp',
    'admin@localhost',
    '"odd@local"@example.com',
    'UPPER@EXAMPLE.COM',
  ])('may be %s and is sent byte for byte', (address) => {
    expect(checkContactEmail(address)).toBe(address);
  });

  it.each(['a', 'ß'])('has 254 bytes of UTF-8 at most, in lookups and at a login: of %s', (char) => {
    const longest = `${char.repeat(242 / Buffer.byteLength(char))}@example.com`;
    expect([checkContactEmail(longest), atLogin(longest)]).toEqual([longest, longest]);
    const message = 'contactEmail must be an e-mail address of 254 bytes of UTF-8 or less';
    expectRefusal(() => checkContactEmail(`${longest}m`), message);
    expect(atLogin(`${longest}m`)).toBeUndefined();
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
  ])('cannot be %p, which counts as none at a login, and the error does not show it', (address) => {
    expectRefusal(() => checkContactEmail(address), 'contactEmail must be an e-mail address');
    expect(atLogin(address)).toBeUndefined();
  });
});

describe('the options of a call', () => {
  const check = (schema: object, options: unknown): unknown =>
    Reflect.apply(checkCall, undefined, [{ eventId: 'e' }, schema, options, undefined]);
  const pages = { itemsPerPage: 50, prefetch: 4 };
  const stream = { ...pages, startPage: 1, maxPages: undefined, onDrift: 'error' };
  const size = { totalCount: 7, itemsPerPage: 50 };
  const pageInfo = { ...size, currentPage: 1, totalPages: 1, hasNextPage: false };
  const noSize = { totalCount: 0, itemsPerPage: 0 };

  it.each<[schema: object, options: object | undefined, call: object]>([
    [listOptions, undefined, { page: 1, itemsPerPage: 50 }],
    [streamOptions, {}, stream],
    [snapshotOptions, {}, { ...pages, attempts: 3 }],
    [lookupOptions, {}, { fresh: false }],
    [listOptions, { itemsPerPage: 1, page: 99_999 }, { page: 99_999, itemsPerPage: 1 }],
    [lookupOptions, { deadline: 2_147_483_647 }, { deadline: 2_147_483_647, fresh: false }],
    [streamOptions, { prefetch: 16, maxPages: 1 }, { ...stream, prefetch: 16, maxPages: 1 }],
    // The paging information of a page is a size.
    [streamOptions, { expect: pageInfo }, { ...stream, expect: size }],
    [streamOptions, { expect: noSize }, { ...stream, expect: noSize }],
  ])('have defaults, and accept both limits of every range: %#', (schema, options, call) => {
    expect(check(schema, options)).toEqual({ ...call, eventId: 'e' });
  });

  const count = (name: string, from: number): string => `${name} must be a whole number, ${from} or more`;
  const range = (name: string, from: number, to: number): string =>
    `${name} must be a whole number from ${from} to ${to}`;

  type Refused = [schema: object, options: unknown, message: string];
  it.each<Refused>([
    ...[0, 1.5, NaN, '2', null].map((page): Refused => [listOptions, { page }, count('page', 1)]),
    [listOptions, { itemsPerPage: 0 }, range('itemsPerPage', 1, 50)],
    [streamOptions, { itemsPerPage: 51 }, range('itemsPerPage', 1, 50)],
    [streamOptions, { prefetch: 0 }, range('prefetch', 1, 16)],
    [snapshotOptions, { prefetch: 17 }, range('prefetch', 1, 16)],
    [streamOptions, { maxPages: 0 }, count('maxPages', 1)],
    [streamOptions, { startPage: 0 }, count('startPage', 1)],
    [streamOptions, { onDrift: 'warn' }, "onDrift must be 'error' or 'ignore'"],
    [streamOptions, { expect: 7 }, 'expect must be an object'],
    [streamOptions, { expect: null }, 'expect must be an object'],
    [streamOptions, { expect: { total: 7 } }, count('expect.totalCount', 0)],
    ...[-1, 1.5, NaN, Infinity, '7', null].map((totalCount): Refused => [
      streamOptions,
      { expect: { totalCount } },
      count('expect.totalCount', 0),
    ]),
    [streamOptions, { expect: { totalCount: 7, itemsPerPage: '50' } }, count('expect.itemsPerPage', 0)],
    [snapshotOptions, { attempts: 0 }, range('attempts', 1, 100)],
    [snapshotOptions, { attempts: 101 }, range('attempts', 1, 100)],
    [listOptions, { deadline: 0 }, range('deadline', 1, 2_147_483_647)],
    [lookupOptions, { deadline: 2 ** 31 }, range('deadline', 1, 2_147_483_647)],
    [lookupOptions, { fresh: 1 }, 'fresh must be true or false'],
    [listOptions, { signal: {} }, 'signal must be an AbortSignal'],
    [listOptions, { tenant: '' }, 'tenant must be the key of a tenant'],
    [listOptions, 'page=2', 'options must be an object'],
  ])('refuse a wrong value by its name, with the expected ones: %#', (schema, options, message) => {
    expectRefusal(() => check(schema, options), message);
  });
});
