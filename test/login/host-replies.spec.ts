import type { ServerResponse } from 'node:http';
import fastifyCookie from '@fastify/cookie';
import { beforeAll, describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import type { RequestHandler } from 'express';
import * as fc from 'fast-check';
import { normalizeReturnTo, safeReturnTo } from '../../lib/login/return-to.js';
import { anyText } from '../support/any-text.js';
import type { Host, HostKind } from '../support/host.js';
import type { ScriptedProvider } from '../support/provider.js';
import { OperatorLines } from '../support/operator-lines.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { withProvider } from './hosts.js';
import { arrive, expectError, identityOf, logIn, logOut, toHost, toProvider } from './journey.js';

let provider: ScriptedProvider;
const start = withProvider((started) => (provider = started));

const KEPT: readonly string[] = [
  ['/', '/.', '/..', '/:80', '/€', '/a//b', '/a/../b', '/a/..//../b', '/@evil.example', '/path#fragment'],
  ['/events/world-2026/mine', '/events?page=2&size=50', '/?next=https://evil.example', '/%2F%2Fevil.example'],
  ['/path with space', '/ümläut/ß', '/展会?q=€&r="#ß€', `/${'€'.repeat(170)}`, `/${'x'.repeat(511)}`],
].flat();

const DROPPED: readonly unknown[] = [
  ['', 'events', './events', '../events', '?query', '#fragment', ' /events', ' //evil.example'],
  ['//evil.example', '///evil.example', '//evil.example/path', 'javascript:alert(1)', 'data:text/html,x'],
  ['/..//evil.example', '/.//evil.example', '/..//', '/a/..//evil.example', '/a/../..//evil.example/path'],
  ['/%2e%2e//evil.example', '/a/%2E%2e//evil.example', '/\\evil.example', '\\/evil.example', '/path\\evil'],
  [
    'https://evil.example',
    'HTTPS://evil.example',
    'https:evil.example',
    'http:/evil.example',
    '\\\\evil.example',
  ],
  ['/\t/evil.example', '/\n/evil.example', '/\r\nSet-Cookie: a=b', '\t//evil.example', '/\u0000', '/\u007f'],
  [`/${'x'.repeat(512)}`, `/${'ü'.repeat(256)}`, ['/events'], { path: '/events' }, 7, null, undefined],
].flat();

/** Middleware of the host, the same on both frameworks: Fastify passes the response of Node to it. */
function middleware(app: INestApplication): void {
  app.use((_request: unknown, response: ServerResponse, next: () => void) => {
    response.setHeader('X-Host', 'middleware');
    response.setHeader('Set-Cookie', 'from-middleware=1; Path=/');
    next();
  });
}

/** Parts of a host that set headers and cookies before a guard runs. */
const settings: readonly [kind: HostKind, what: string, configure: (app: INestApplication) => unknown][] = [
  ['express', 'middleware', middleware],
  [
    'express',
    'middleware that sets several cookies',
    (app) => {
      const handler: RequestHandler = (_request, response, next) => {
        response.cookie('one', '1');
        response.cookie('from-middleware', '1');
        response.set('X-Host', 'express');
        next();
      };
      app.use(handler);
    },
  ],
  ['fastify', 'middleware', middleware],
  [
    'fastify',
    'a plugin and a hook',
    async (app) => {
      const fastify = (app as NestFastifyApplication).getHttpAdapter().getInstance();
      await (app as NestFastifyApplication).register(fastifyCookie as never);
      fastify.addHook('onRequest', (_request, reply, done) => {
        void reply.header('x-host', 'hook').header('set-cookie', 'from-middleware=1; Path=/');
        done();
      });
      fastify.addHook('preHandler', (_request, reply, done) => {
        (reply as unknown as { setCookie(name: string, value: string): void }).setCookie('one', '1');
        done();
      });
    },
  ],
];

const cookieNames = ({ setCookies }: Reply): string[] =>
  setCookies.map((header) => header.slice(0, header.indexOf('=')));

/** The replies of a login route, of a callback, of the same once more, of a page and of a logout. */
async function repliesOf(host: Host): Promise<Reply[]> {
  const visitor = new Visitor();
  const started = await visitor.visit(`${host.url}/auth/login`);
  const arrival = await toProvider(visitor, host);
  const finished = await toHost(visitor, arrival);
  const refused = await toHost(visitor, arrival);
  return [started, finished, refused, await visitor.visit(`${host.url}/me`), await logOut(visitor, host)];
}

it.each(settings)(
  'headers and cookies set on %s by %s are kept by all replies',
  async (kind, _what, configure) => {
    const replies = await repliesOf(await start({ kind, configure }));
    expect(replies.map(({ status }) => status)).toEqual([302, 303, 401, 200, 303]);
    for (const reply of replies) {
      expect(reply.headers.get('x-host')).toEqual(expect.any(String));
      expect(cookieNames(reply)).toContain('from-middleware');
    }
    const [started = '', finished, , , left] = replies.map((reply) => cookieNames(reply).join());
    expect(started).toContain('exhibitor-login-');
    expect(finished).toContain('exhibitor-identity');
    expect(left).toContain('exhibitor-identity');
  },
);

describe.each(['express', 'fastify'] as const)('the replies of the login routes on %s', (kind) => {
  let usual: Host;
  const lines = new OperatorLines();
  beforeAll(async () => {
    usual = await start({ kind, configure: (app) => app.useLogger(lines) });
  });

  const begin = (headers: Record<string, string> = {}): Promise<Reply> =>
    new Visitor().visit(`${usual.url}/auth/login`, { headers });

  it('are not cached and send no Referer to other sites', async () => {
    const [started, finished, refused, , left] = await repliesOf(usual);
    for (const reply of [started, finished, refused, left, await begin({ 'sec-fetch-dest': 'image' })]) {
      expect(reply?.headers.get('cache-control')).toBe('private, no-store');
      expect(reply?.headers.get('referrer-policy')).toBe('no-referrer');
    }
    for (const reply of [started, finished, left]) {
      expect(reply?.headers.get('vary')).toContain('Cookie');
    }
  });

  it('refuse a login requested as a subresource, and start one by navigation', async () => {
    for (const destination of ['image', 'script', 'style', 'empty', 'font', 'frame', 'object', 'x']) {
      const reply = await begin({ 'sec-fetch-dest': destination });
      expectError(reply, 400, 'invalid_argument');
      expect(reply.setCookies).toEqual([]);
    }
    for (const headers of [
      {},
      { 'sec-fetch-dest': 'document' },
      { 'sec-fetch-dest': 'document', 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-dest': 'iframe', 'sec-fetch-site': 'same-origin' },
    ] as Record<string, string>[]) {
      const reply = await begin(headers);
      expect([reply.status, new URL(reply.location ?? '').origin]).toEqual([302, provider.url]);
    }
  });

  it.each<[what: string, status: number, headers: Record<string, string>, method?: string]>([
    ['prefetch', 503, { 'sec-purpose': 'prefetch' }],
    ['prefetch;prerender', 503, { 'sec-purpose': 'prefetch;prerender' }],
    ['prefetch in other letters', 503, { 'sec-purpose': 'anonymous-client-ip, Prefetch' }],
    ['Purpose', 503, { purpose: 'prefetch' }],
    ['X-Purpose', 503, { 'x-purpose': 'PREFETCH' }],
    ['X-Purpose of Safari', 503, { 'x-purpose': 'preview' }],
    ['X-Moz', 503, { 'x-moz': 'prefetch' }],
    ['HEAD', 204, {}, 'HEAD'],
    ['HEAD ahead', 204, { purpose: 'prefetch' }, 'HEAD'],
  ])(
    'neither start nor spend a login, nor say anything: %s is %i',
    async (_, status, headers, method = 'GET') => {
      const { visitor, arrival } = await arrive(usual);
      const before = [...visitor.cookies()];
      lines.clear();
      for (const address of [`${usual.url}/auth/login`, `${arrival.callback}?${arrival.parameters}`]) {
        const reply = await visitor.visit(address, { method, headers });
        expect([reply.status, reply.text, reply.setCookies]).toEqual([status, '', []]);
        expect(reply.headers.get('cache-control')).toBe('no-store');
      }
      expect([[...visitor.cookies()], lines.all]).toEqual([before, []]);
      expect((await toHost(visitor, arrival)).status).toBe(303);
    },
  );

  it('start and spend a login that a browser asks for with another purpose', async () => {
    const headers = { 'sec-purpose': 'no-prefetch', purpose: 'prefetchable', 'x-moz': 'microsummary' };
    const { visitor, arrival } = await arrive(usual);
    expect((await visitor.visit(`${usual.url}/auth/login`, { headers })).status).toBe(302);
    const finished = await visitor.visit(`${arrival.callback}?${arrival.parameters}`, { headers });
    expect(finished.status).toBe(303);
  });

  it('use the configured callback and ignore Host and X-Forwarded-Host', async () => {
    const reply = await begin({ 'x-forwarded-host': 'evil.example', 'x-forwarded-proto': 'https' });
    expect(new URL(reply.location ?? '').searchParams.get('redirect_uri')).toBe(usual.callback);
  });

  it('lead to returnTo, percent-encoded as a browser would request it, which is not stored', async () => {
    // Of each kind one: the others differ in nothing that an adapter sees.
    const kinds = ['/', '/a/../b', '/events?page=2&size=50', '/展会?q=€&r="#ß€', `/${'€'.repeat(100)}`];
    for (const returnTo of kinds) {
      const visitor = new Visitor();
      const reply = await logIn(visitor, usual, `?${new URLSearchParams({ returnTo })}`);
      const { href, pathname, search, hash } = new URL(returnTo, usual.url);
      expect([reply.status, reply.location]).toEqual([303, href]);
      expect(reply.headers.get('location')).toBe(`${pathname}${search}${hash}`);
      expect(await identityOf(visitor, usual)).not.toHaveProperty('returnTo');
    }
  });

  it('lead to the start page for anything else', async () => {
    const elsewhere = ['//evil.example', '/..//evil.example', '/\\evil.example', 'https://evil.example'];
    const queries = [...elsewhere, '/\r\nSet-Cookie: a=b'].map(
      (returnTo) => new URLSearchParams({ returnTo }),
    );
    for (const query of [...queries, 'returnTo=/a&returnTo=//evil.example']) {
      const reply = await logIn(new Visitor(), usual, `?${query}`);
      expect([reply.status, reply.location]).toEqual([303, `${usual.url}/`]);
    }
  });
});

it.each([
  ['same-origin', 'lax', 302],
  ['same-site', 'lax', 400],
  ['cross-site', 'lax', 400],
  ['none', 'lax', 400],
  ['', 'lax', 400],
  ['same-site', 'none', 302],
  ['cross-site', 'none', 302],
] as const)(
  'a login in a frame of a %s page with cookies.sameSite %s: %i',
  async (site, sameSite, status) => {
    const host = await start({ redirectUri: 'https://host.example/auth/callback', cookies: { sameSite } });
    const headers = { 'sec-fetch-dest': 'iframe', 'sec-fetch-site': site };
    const reply = await new Visitor().visit(`${host.url}/auth/login`, { headers });
    const expected = status === 302 ? new RegExp(`^302 [^,]*SameSite=${sameSite}[^,]*$`, 'i') : /^400 $/;
    expect(`${reply.status} ${reply.setCookies.join()}`).toMatch(expected);
  },
);

describe('returnTo', () => {
  it('keeps a path of this origin', () => {
    expect(KEPT.map(safeReturnTo)).toEqual(KEPT);
  });

  it('drops anything else', () => {
    expect(DROPPED.filter((value) => safeReturnTo(value) !== undefined)).toEqual([]);
  });

  const BASES = ['https://host.example.com/auth/callback', 'http://127.0.0.1:3000/auth/callback?a=b'];

  it('never leads to another origin, however a browser resolves it', () => {
    const nasty = fc.constantFrom(...'/\\\t\n\r @:.?#', '//', '..', '%2f');
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
      fc.nat(9_999).map((port) => `https://${port % 7}.evil.example:${port}/a?b=${port}#c`),
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
      { numRuns: 1_000 },
    );
    expect(kept).toBeGreaterThan(100);
  });
});
