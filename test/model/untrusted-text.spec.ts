import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { hideSecrets, untrustedText } from '../../lib/model/untrusted-text.js';
import { anyText } from '../support/any-text.js';

describe('text from outside', () => {
  it.each(['', 'preferred_username', 'https://example.com/claims/größe', '売り場 7', 'a'.repeat(100)])(
    'is shown as it is where it is short and plain: %j',
    (text) => {
      expect(untrustedText(text)).toBe(text);
    },
  );

  it('is cut to 100 characters, or to another length', () => {
    expect(untrustedText('a'.repeat(101))).toBe(`${'a'.repeat(100)}…`);
    expect(untrustedText('a'.repeat(1_000_000))).toBe(`${'a'.repeat(100)}…`);
    expect(untrustedText('abcdef', 3)).toBe('abc…');
  });

  it.each([
    'a\nb',
    'a\r\nb',
    'a\u0000b',
    'a\u001b[31mb',
    'a\u009bb',
    'a\u2028b',
    'a\u202eb',
    'a\u200bb',
    'a\ufeffb',
    'a\ud800b',
  ])('loses control and format characters: %j', (text) => {
    expect(untrustedText(text)).toMatch(/^a[ -~]*b$/);
    expect(untrustedText(text)).toContain(' ');
  });

  it.each([
    'zoe@example.com',
    'zoë@exämple.com',
    'zoe+fair@example.com',
    'zoe%40example.com',
    'zoe%2540example.com',
    'mailto:zoe@example.com',
    'zoe@localhost',
    'z\u0000oe@example.com',
    "zoe.o'neill@example.com",
    '"zoe neill"@example.com',
  ])('loses e-mail addresses: %j', (address) => {
    expect(untrustedText(`claim of ${address} is too long`)).toBe('claim of [removed] is too long');
    expect(untrustedText(`<${address}>`)).toBe('<[removed]>');
  });

  it.each([
    [
      'GET https://vault.example/v1/kv?token=hvs.CAESIJ5&x=1',
      'GET https://vault.example/v1/kv?token=[removed]&x=1',
    ],
    ['Authorization=Bearer:hvs.CAESIJ5 sent', 'Authorization=[removed] sent'],
    ['Authorization=Bearer hvs.CAESIJ5 sent', 'Authorization=[removed] sent'],
    ['client_secret=s3cr3t, scope=api', 'client_secret=[removed], scope=api'],
    ['body {"clientSecret":"s3cr3t","id":1}', 'body {"clientSecret":"[removed]","id":1}'],
    ["options { password: 'hunter2' }", "options { password: '[removed]' }"],
    ['{"access_token" : "abc"}', '{"access_token" : "[removed]"}'],
    ['token = abc', 'token = [removed]'],
    ['PGPASSWORD:hunter2', 'PGPASSWORD:[removed]'],
    ['https://a.example/cb%3Faccess_token%3Dabc', 'https://a.example/cb%3Faccess_token%3D[removed]'],
    ['x-api-key=k3y', 'x-api-key=[removed]'],
  ])('loses what is named as a credential: %j', (text, shown) => {
    expect(untrustedText(text)).toBe(shown);
  });

  it('shows prose about credentials, and of a long text with many no address that its end would cut', () => {
    const prose = 'the token: expired; no secret (password) was sent: unauthorized_client';
    expect(untrustedText(prose)).toBe(prose);
    for (let length = 300; length < 420; length += 1) {
      const text = `${'token=abcdefghijklmnopqrstuvwxyz '.repeat(3)}${'x '.repeat(length / 2)}zoe.zimmermann@example.com`;
      expect(untrustedText(text, 400)).not.toContain('zoe');
    }
  });

  it.each(['Bearer a-token', 'Bearer: a-token', 'bearer a-token', 'Basic YTpiYyZk', 'basic YTpiYyZk'])(
    'loses credentials: %j',
    (sent) => {
      const [scheme] = sent.split(' ');
      expect(untrustedText(`the header Authorization: ${sent} is wrong`)).toBe(
        `the header Authorization: ${scheme} [removed] is wrong`,
      );
    },
  );

  it('loses tokens', () => {
    expect(untrustedText('the token eyJhbGciOiJSUzI1NiJ9.e30.c2ln has expired')).toBe(
      'the token [removed] has expired',
    );
  });

  it('shows no part of an address that the cut splits', () => {
    for (let before = 0; before < 700; before += 1) {
      expect(untrustedText(`${'.'.repeat(before)} victim@example.com`)).not.toContain('vict');
      expect(untrustedText(`${'a'.repeat(250)}@b.c ${'.'.repeat(before)} victim@example.com`)).not.toContain(
        'vict',
      );
    }
  });

  it('is one printable line of no more than 101 characters, whatever it is', () => {
    fc.assert(
      fc.property(anyText({ maxLength: 1_000 }), (text) => {
        const shown = untrustedText(text);
        expect(shown.length).toBeLessThanOrEqual(101);
        expect(shown).toMatch(/^[^\p{C}\p{Zl}\p{Zp}@]*$/u);
      }),
    );
  });
});

describe('text that may repeat a secret', () => {
  it('shows no secret: raw, URL-encoded or base64, at any position', () => {
    const shapes: ((secret: string, before: string) => string)[] = [
      (secret) => secret,
      (secret) => encodeURIComponent(secret),
      (secret) => encodeURIComponent(secret).toLowerCase(),
      (secret) => new URLSearchParams({ client_secret: secret }).toString(),
      (secret) => Buffer.from(secret).toString('base64'),
      (secret) => Buffer.from(secret).toString('base64url'),
      (secret, before) => Buffer.from(`${before}:${secret}`).toString('base64'),
    ];
    fc.assert(
      fc.property(
        fc.stringMatching(/^[\x21-\x7e]{8,40}$/),
        fc.string({ maxLength: 6 }),
        fc.constantFrom(...shapes),
        (secret, before, shape) => {
          const shown = hideSecrets(`the client sent ${shape(secret, before)} which is wrong`, [secret]);
          expect(shown).toBe('[removed]');
        },
      ),
      { numRuns: 300 },
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
      for (let at = 0; at < 2_000; at += 23) {
        const shown = hideSecrets(`${before}${'. '.repeat(at / 2)}${whole} after it`, [secret]);
        expect([at, shown.includes(part)]).toEqual([at, false]);
      }
    }
  });
});
