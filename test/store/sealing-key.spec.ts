import { describe, expect, it } from '@jest/globals';
import { CompactEncrypt, compactDecrypt } from 'jose';
import { hkdfSync } from 'node:crypto';
import { SealingKey } from '../../lib/store/sealer.service.js';

const SECRET = 'a secret of the tests, 32 characters or more';
const TEXT = JSON.stringify({ name: 'Zoë 🎪', values: ['x'.repeat(900), 1, null] });
const key = new SealingKey(SECRET, 'identity');
const raw = new Uint8Array(hkdfSync('sha256', SECRET, '', 'nestjs-exhibitor:identity', 32));

const headerOf = (sealed: string): Record<string, string> =>
  JSON.parse(Buffer.from(sealed.split('.')[0] ?? '', 'base64url').toString()) as Record<string, string>;

describe('a sealing key', () => {
  it('opens what jose sealed with it, and seals what jose opens', async () => {
    const sealed = await key.seal(TEXT);
    expect(await key.open(sealed)).toBe(TEXT);
    const { plaintext, protectedHeader } = await compactDecrypt(sealed, raw);
    expect(Buffer.from(plaintext).toString()).toBe(TEXT);
    expect(protectedHeader).toEqual({ alg: 'dir', enc: 'A256GCM', kid: expect.any(String) });
    const ours = await new CompactEncrypt(Buffer.from(TEXT))
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM', kid: headerOf(sealed)['kid'] })
      .encrypt(raw);
    expect(await key.open(ours)).toBe(TEXT);
  });

  it('opens nothing of another secret or purpose', async () => {
    const sealed = await key.seal(TEXT);
    expect(await new SealingKey(SECRET, 'login').open(sealed)).toBeUndefined();
    expect(await new SealingKey(`${SECRET}!`, 'identity').open(sealed)).toBeUndefined();
    expect(await new SealingKey(SECRET, 'identity').open(sealed)).toBe(TEXT);
  });

  it('opens nothing with another header, though it is sealed with the same bytes', async () => {
    const { kid } = headerOf(await key.seal(TEXT));
    const seal = (header: { alg: string; enc: string; kid?: string; typ?: string }): Promise<string> =>
      new CompactEncrypt(Buffer.from(TEXT)).setProtectedHeader(header).encrypt(raw);
    expect(await key.open(await seal({ alg: 'dir', enc: 'A256GCM', kid }))).toBe(TEXT);
    expect(await key.open(await seal({ alg: 'dir', enc: 'A256GCM' }))).toBeUndefined();
    expect(await key.open(await seal({ alg: 'dir', enc: 'A128CBC-HS256', kid }))).toBeUndefined();
    expect(await key.open(await seal({ alg: 'dir', enc: 'A256GCM', kid, typ: 'JWT' }))).toBeUndefined();
    expect(await key.open(await seal({ alg: 'A256GCMKW', enc: 'A256GCM', kid }))).toBeUndefined();
  });

  it('opens nothing that was changed, cut short, extended or encoded in another way', async () => {
    const sealed = await key.seal(TEXT);
    const parts = sealed.split('.');
    for (const index of parts.keys()) {
      for (const change of [
        (part: string) => part.slice(0, -1),
        (part: string) => part.slice(4),
        (part: string) => `A${part.slice(1)}A`,
        (part: string) => `${part}=`,
        (part: string) => `${part}!`,
        (part: string) => `${part} `,
        () => '',
        () => 'AAAA',
      ]) {
        const changed = parts.map((part, at) => (at === index ? change(part) : part)).join('.');
        expect(changed === sealed ? undefined : await key.open(changed)).toBeUndefined();
      }
    }
    for (const other of [`${sealed}.`, sealed.slice(0, -3), parts.slice(0, 4).join('.'), '', '....', 'x']) {
      expect(await key.open(other)).toBeUndefined();
    }
  });

  it('accepts only one spelling of the last characters of a part', async () => {
    const sealed = await key.seal(TEXT);
    // The tag has 16 bytes: of its last character only two bits count.
    const last = sealed.at(-1) ?? '';
    const twin = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const others = [...twin]
      .filter((letter) => letter !== last)
      .map((letter) => sealed.slice(0, -1) + letter);
    const opened = await Promise.all(others.map((other) => key.open(other)));
    expect(opened.filter((text) => text !== undefined)).toEqual([]);
  });
});
