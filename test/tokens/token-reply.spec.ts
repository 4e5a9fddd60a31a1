import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { earlyWindow, lifetimeOf } from '../../lib/tokens/token-lifetime.js';
import { parseTokenReply } from '../../lib/tokens/token-reply.js';
import { hideSecrets } from '../../lib/model/untrusted-text.js';
import { anyText } from '../support/any-text.js';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

describe('expires_in', () => {
  it.each([
    ['a number of seconds', 120, 120_000],
    ['a fraction', 1.5, 1_500],
    ['its digits as a string', '120', 120_000],
    ['digits between spaces', ' 120 ', 120_000],
    ['zero', 0, 0],
    ['negative', -5, 0],
    ['negative, as a string', '-5', 0],
    ['more than a day', 86_401, DAY],
    ['huge', 1e300, DAY],
    ['huge, as JSON reads 1e999', Infinity, DAY],
    ['huge, as a string', '9'.repeat(400), DAY],
    ['missing', undefined, HOUR],
    ['null', null, HOUR],
    ['not a number', NaN, HOUR],
    ['words', 'an hour', HOUR],
    ['empty', '', HOUR],
    ['another notation', '0x10', HOUR],
    ['true', true, HOUR],
    ['a list', [3600], HOUR],
    ['an object', {}, HOUR],
  ])('of %s', (_what, value, lifetime) => {
    expect(lifetimeOf(value)).toBe(lifetime);
  });

  it('becomes a lifetime from zero to one day, whatever it is', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const lifetime = lifetimeOf(value);
        expect(lifetime >= 0 && lifetime <= DAY).toBe(true);
      }),
    );
  });
});

describe('the early window', () => {
  it('is the last minute or tenth of a lifetime, shortened randomly by up to half', () => {
    fc.assert(
      fc.property(fc.nat(DAY), fc.double({ min: 0, max: 1, noNaN: true }), (lifetime, chance) => {
        const widest = Math.min(60_000, lifetime / 10);
        expect(earlyWindow(lifetime, chance)).toBeLessThanOrEqual(widest);
        expect(earlyWindow(lifetime, chance)).toBeGreaterThanOrEqual(widest / 2);
      }),
    );
  });
});

describe('a token reply', () => {
  const whole = { access_token: 'token', token_type: 'Bearer', expires_in: 3600, scope: 'idp_api' };

  it('grants a token', () => {
    expect(parseTokenReply(whole, 'idp_api')).toEqual({
      kind: 'granted',
      accessToken: 'token',
      scope: 'idp_api',
      lifetime: HOUR,
    });
  });

  it.each(['bearer', 'BEARER', 'Bearer'])('may write its type in any case: %s', (type) => {
    expect(parseTokenReply({ ...whole, token_type: type }, null).kind).toBe('granted');
  });

  it('without a scope grants the requested one', () => {
    const { scope: _scope, ...silent } = whole;
    expect(parseTokenReply(silent, 'a b')).toMatchObject({ scope: 'a b' });
    expect(parseTokenReply(silent, null)).toMatchObject({ scope: undefined });
  });

  it.each([
    ['without access_token', { access_token: undefined }],
    ['with an empty access_token', { access_token: '' }],
    ['whose access_token is a number', { access_token: 1 }],
    ['whose access_token ends the header', { access_token: 'token\r\nX-Tenant-Id: other' }],
    ['whose access_token has a space', { access_token: 'token other' }],
    ['whose access_token is not ASCII', { access_token: 'tökén' }],
    ['without token_type', { token_type: undefined }],
    ['of another type', { token_type: 'mac' }],
    ['whose type is a list', { token_type: ['Bearer'] }],
  ])('%s is malformed', (_what, fields) => {
    expect(parseTokenReply({ ...whole, ...fields }, null).kind).toBe('malformed');
  });

  it.each([null, 'token', 1, true, [], [whole]])('that is not an object is malformed: %p', (body) => {
    expect(parseTokenReply(body, null).kind).toBe('malformed');
  });

  it('is never accepted without a token that is valid in a header', () => {
    fc.assert(
      fc.property(fc.jsonValue(), anyText(), (value, accessToken) => {
        const read = parseTokenReply({ ...whole, access_token: accessToken, extra: value }, null);
        if (read.kind === 'granted') {
          expect(read.accessToken).toMatch(/^[\x21-\x7e]+$/);
        }
        parseTokenReply(value, null);
      }),
    );
  });
});

describe('the shown part of a description', () => {
  const text = anyText({ minLength: 6, maxLength: 40 }).filter((value) => value.trim().length >= 6);

  it('contains no secret: raw, URL-encoded, base64 or hexadecimal, at any position', () => {
    const shapes: ((secret: string, before: string) => string)[] = [
      (secret) => secret,
      (secret) => encodeURIComponent(secret),
      (secret) => encodeURIComponent(secret).toLowerCase(),
      (secret) => new URLSearchParams({ client_secret: secret }).toString(),
      (secret) => Buffer.from(secret).toString('base64'),
      (secret) => Buffer.from(secret).toString('base64url'),
      (secret, before) => Buffer.from(`${before}:${secret}`).toString('base64'),
      (secret, before) => Buffer.from(`${before}:${secret}`).toString('hex'),
      (secret) => Buffer.from(secret).toString('hex').toUpperCase(),
    ];
    fc.assert(
      fc.property(
        fc.stringMatching(/^[\x21-\x7e]{8,40}$/),
        fc.string({ maxLength: 6 }),
        fc.constantFrom(...shapes),
        (secret, before, shape) => {
          const shown = hideSecrets(`the client sent ${shape(secret, before)} which is wrong`, [secret]);
          const unpacked = [...shown.matchAll(/[\w+/=-]{8,}/g)].map(([run]) =>
            Buffer.from(run, 'base64').toString(),
          );
          const digits = [...shown.matchAll(/[\da-f]{8,}/gi)].map(([run]) =>
            Buffer.from(run, 'hex').toString(),
          );
          for (const form of [shown, decodeURIComponentSafely(shown), ...unpacked, ...digits]) {
            expect(form.includes(secret)).toBe(false);
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  it('is one line of at most 300 characters', () => {
    fc.assert(
      fc.property(anyText({ maxLength: 2_000 }), text, (description, secret) => {
        const shown = hideSecrets(description, [secret]);
        expect(shown.length).toBeLessThanOrEqual(301);
        expect(shown).toMatch(/^[^\p{Cc}]*$/u);
      }),
    );
  });

  it.each([
    ['nothing', ''],
    ['a token, which is much shorter when it is removed', `eyJ${'a'.repeat(700)} `],
    ['a long token, which is much shorter when it is removed', `eyJ${'a'.repeat(1_100)} `],
    ['ten addresses', `${'a'.repeat(60)}@example.com `.repeat(10)],
  ])('holds no part of a secret or an address that a cut splits, after %s', (_what, before) => {
    const secret = '7Gk2xQ9pLm4Zt8Rv'.repeat(6);
    const address = 'zoe.victim.of.the.cut@example.com';
    for (const [part, whole] of [
      ['7Gk2', secret],
      ['zoe.', address],
    ] as const) {
      for (let at = 0; at < 2_000; at += 7) {
        const shown = hideSecrets(`${before}${'. '.repeat(at / 2)}${whole} after it`, [secret]);
        expect([at, shown.includes(part)]).toEqual([at, false]);
      }
    }
  });

  it('contains no token and no e-mail address', () => {
    const shown = hideSecrets(
      'user zoë@example.com with Bearer abcdefghijkl and eyJhbGciOi.eyJzdWIi.c2ln',
      [],
    );
    expect(shown).toBe('user [removed] with Bearer [removed] and [removed]');
  });

  it('is unchanged otherwise', () => {
    expect(hideSecrets('The client is not known, ask onboarding.', ['the-secret'])).toBe(
      'The client is not known, ask onboarding.',
    );
  });
});

function decodeURIComponentSafely(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
