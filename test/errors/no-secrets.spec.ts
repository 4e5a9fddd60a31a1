import { describe, expect, it } from '@jest/globals';
import { ExhibitorError } from '../../lib/errors/exhibitor.error.js';
import { addSecret, leaksOf } from '../setup/leaks.js';
import { assertNoSecretShown } from '../setup/no-secrets.js';

describe('the check of every error of a test run', () => {
  it('finds a secret in every place of an error', () => {
    addSecret('planted client secret');
    const planted: ((secret: string) => unknown)[] = [
      (secret) => new ExhibitorError('token_rejected', `refused: ${secret}`),
      (secret) => new ExhibitorError('token_rejected', 'refused', { tenant: encodeURIComponent(secret) }),
      (secret) => new ExhibitorError('token_rejected', 'refused', { cause: new Error(secret) }),
      (secret) => new ExhibitorError('token_rejected', `refused: ${Buffer.from(secret).toString('base64')}`),
      (secret) =>
        Object.assign(new ExhibitorError('token_rejected', 'refused'), { request: { deep: [{ secret }] } }),
    ];
    for (const plant of planted) {
      plant('planted client secret');
      expect(assertNoSecretShown).toThrow('shows a secret');
      plant('nothing');
      expect(assertNoSecretShown).not.toThrow();
    }
  });

  it.each([
    ['an e-mail address', 'for sam.several@example.com'],
    ['an e-mail address', 'at /contactEmail/zo%C3%AB%2Bfair%40example.com'],
    ['an e-mail address', Buffer.from('someone.else@example.com').toString('base64')],
    ['a token', 'eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl'],
    ['a bearer token', 'Authorization: Bearer abcdefgh12345678'],
    ['basic credentials', 'Authorization: Basic YWxhZGRpbjpzZXNhbWU='],
  ])('recognizes %s by its format', (leak, text) => {
    expect(leaksOf(new Error(text))).toContain(leak);
  });

  it('finds nothing in an error without secrets', () => {
    const error = new ExhibitorError('rate_limited', 'the service asks to wait', {
      tenant: 'acme',
      retryAfterMs: 5,
    });
    expect(leaksOf(error)).toEqual([]);
  });
});
