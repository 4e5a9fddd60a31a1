import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { normalizeReturnTo, safeReturnTo } from '../../lib/login/return-to.js';
import { anyText } from '../support/any-text.js';
import { ScriptedProvider } from '../support/provider.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { Visitor } from '../support/visitor.js';
import { identityOf, toHost, toProvider } from './journey.js';

const KEPT: readonly string[] = [
  '/',
  '/events/world-2026/mine',
  '/events?page=2&size=50',
  '/path#fragment',
  '/a//b',
  '/%2F%2Fevil.example',
  '/ümläut/ß',
  '/path with space',
  '/?next=https://evil.example',
  '/@evil.example',
  '/:80',
  '/.',
  '/..',
  '/a/../b',
  '/€',
  '/展会?q=€&r="#ß€',
  '/a/..//../b',
  `/${'€'.repeat(170)}`,
  `/${'x'.repeat(511)}`,
];

const DROPPED: readonly unknown[] = [
  '',
  'events',
  './events',
  '../events',
  '?query',
  '#fragment',
  '//evil.example',
  '/..//evil.example',
  '/.//evil.example',
  '/a/..//evil.example',
  '/a/../..//evil.example/path',
  '/%2e%2e//evil.example',
  '/a/%2E%2e//evil.example',
  '/..//',
  '///evil.example',
  '//evil.example/path',
  '/\\evil.example',
  '\\/evil.example',
  '\\\\evil.example',
  '/path\\evil',
  'https://evil.example',
  'HTTPS://evil.example',
  'https:evil.example',
  'http:/evil.example',
  'javascript:alert(1)',
  'data:text/html,x',
  ' /events',
  ' //evil.example',
  '/\t/evil.example',
  '/\n/evil.example',
  '/\r\nSet-Cookie: a=b',
  '\t//evil.example',
  '/\u0000',
  '/\u007f',
  `/${'x'.repeat(512)}`,
  `/${'ü'.repeat(256)}`,
  ['/events'],
  { path: '/events' },
  7,
  null,
  undefined,
];

describe('returnTo', () => {
  it.each(KEPT)('keeps %j', (value) => {
    expect(safeReturnTo(value)).toBe(value);
  });

  it.each(DROPPED)('drops %j', (value) => {
    expect(safeReturnTo(value)).toBeUndefined();
  });

  const BASES = ['https://host.example.com/auth/callback', 'http://127.0.0.1:3000/auth/callback?a=b'];

  it('never leads to another origin, however a browser resolves it', () => {
    const nasty = fc.constantFrom(
      '/',
      '\\',
      '//',
      '\t',
      '\n',
      '\r',
      ' ',
      '@',
      ':',
      '.',
      '..',
      '%2f',
      '?',
      '#',
    );
    const word = fc.constantFrom(
      'evil.example',
      'https:',
      'javascript:',
      'localhost',
      'a',
      '[::1]',
      '\u3002',
      '／',
    );
    const address = fc.oneof(
      anyText(),
      fc.webUrl(),
      fc
        .array(fc.oneof(nasty, word, fc.string({ maxLength: 3 })), { maxLength: 8 })
        .map((all) => all.join('')),
      fc.array(fc.oneof(nasty, word), { maxLength: 6 }).map((all) => `/${all.join('')}`),
    );
    let kept = 0;
    fc.assert(
      fc.property(address, (value) => {
        const safe = safeReturnTo(value);
        if (safe === undefined) {
          return;
        }
        kept++;
        const returned = normalizeReturnTo(safe) ?? '';
        const [to, from] = [returned, safe].map((path) => new URL(path, 'https://host.example.com/auth'));
        // One comparison for all: each call of expect takes as long as the functions under test.
        expect({
          fits: Buffer.byteLength(safe) <= 512,
          origins: BASES.map((base) => new URL(safe, base).origin),
          isPath: /^\/(?![/\\])[\x21-\x7e]*$/.test(returned),
          again: normalizeReturnTo(returned),
          target: [to?.pathname, to?.search, to?.hash],
        }).toEqual({
          fits: true,
          origins: BASES.map((base) => new URL(base).origin),
          isPath: true,
          again: returned,
          target: [from?.pathname, from?.search, from?.hash],
        });
      }),
      { numRuns: 5_000 },
    );
    expect(kept).toBeGreaterThan(500);
  });
});

describe.each(['express', 'fastify'] as const)('a login on %s', (kind) => {
  let provider: ScriptedProvider;
  let host: Host;
  beforeAll(async () => {
    provider = await ScriptedProvider.start();
    host = await startHost({
      kind,
      options: (callback) => ({ tenant: provider.tenantOptions(callback), secrets: [COOKIE_SECRET] }),
    });
  });
  afterAll(async () => {
    await host?.close();
    await provider?.stop();
  });

  const texts = (values: readonly unknown[]): string[] =>
    values.filter((value): value is string => typeof value === 'string');

  it.each(texts(KEPT))('returns to %j', async (returnTo) => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host, `?${new URLSearchParams({ returnTo })}`);
    const reply = await toHost(visitor, arrival);
    expect([reply.status, reply.location]).toEqual([303, new URL(returnTo, host.url).href]);
    // Percent-encoded, as a browser would request it.
    const { pathname, search, hash } = new URL(returnTo, host.url);
    expect(reply.headers.get('location')).toBe(`${pathname}${search}${hash}`);
    // It is used for this redirect only and not stored.
    expect(await identityOf(visitor, host)).not.toHaveProperty('returnTo');
  });

  it.each(texts(DROPPED))('leads to the start page instead of %j', async (returnTo) => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host, `?${new URLSearchParams({ returnTo })}`);
    const reply = await toHost(visitor, arrival);
    expect([reply.status, reply.location]).toEqual([303, `${host.url}/`]);
  });

  it('drops a returnTo that is sent twice', async () => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host, '?returnTo=/a&returnTo=//evil.example');
    expect((await toHost(visitor, arrival)).location).toBe(`${host.url}/`);
  });
});
