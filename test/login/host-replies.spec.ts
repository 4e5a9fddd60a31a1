import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import fastifyCookie from '@fastify/cookie';
import type { INestApplication } from '@nestjs/common';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import type { RequestHandler } from 'express';
import type { ServerResponse } from 'node:http';
import { ScriptedProvider } from '../support/provider.js';
import { COOKIE_SECRET, startHost, type Host, type HostKind } from '../support/host.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { expectRefusal, identityOf, toHost, toProvider } from './journey.js';

let provider: ScriptedProvider;
let host: Host | undefined;
beforeAll(async () => {
  provider = await ScriptedProvider.start();
});
afterEach(() => host?.close());
afterAll(() => provider?.stop());

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
  setCookies.map((header) => header.slice(0, header.indexOf('='))).toSorted();

describe.each(settings)('headers and cookies set on %s by %s', (kind, _what, configure) => {
  it('are kept by the redirect to the provider, the callback, a refusal and the logout', async () => {
    host = await startHost({
      kind,
      configure,
      options: (callback) => ({ tenant: provider.tenantOptions(callback), secrets: [COOKIE_SECRET] }),
    });
    const visitor = new Visitor();
    const started = await visitor.visit(`${host.url}/auth/login`);
    const arrival = await toProvider(visitor, host);
    const finished = await toHost(visitor, arrival);
    const refused = await toHost(visitor, arrival);
    const me = await visitor.visit(`${host.url}/me`);
    const left = await visitor.visit(`${host.url}/auth/logout`, { method: 'POST' });
    expect([started, finished, refused, me, left].map(({ status }) => status)).toEqual([
      302, 303, 401, 200, 303,
    ]);
    for (const reply of [started, finished, refused, me, left]) {
      expect(reply.headers.get('x-host')).toEqual(expect.any(String));
      expect(cookieNames(reply)).toContain('from-middleware');
    }
    expect(cookieNames(started).some((name) => name.startsWith('exhibitor-login-'))).toBe(true);
    expect(cookieNames(finished)).toContain('exhibitor-identity');
    expect(cookieNames(left)).toContain('exhibitor-identity');
  });
});

describe.each(['express', 'fastify'] as const)('the replies of the login routes on %s', (kind) => {
  let usual: Host;
  beforeAll(async () => {
    usual = await startHost({
      kind,
      options: (callback) => ({ tenant: provider.tenantOptions(callback), secrets: [COOKIE_SECRET] }),
    });
  });
  afterAll(() => usual?.close());

  it('are not cached and send no Referer to other sites', async () => {
    const visitor = new Visitor();
    const started = await visitor.visit(`${usual.url}/auth/login`);
    const finished = await toHost(visitor, await toProvider(visitor, usual));
    const left = await visitor.visit(`${usual.url}/auth/logout`, { method: 'POST' });
    const refused = await visitor.visit(usual.callback);
    const subresource = await visitor.visit(`${usual.url}/auth/login`, {
      headers: { 'sec-fetch-dest': 'image' },
    });
    expectRefusal(refused, 'state');
    for (const { headers } of [started, finished, left, refused, subresource]) {
      expect(headers.get('cache-control')).toBe('no-store');
      expect(headers.get('referrer-policy')).toBe('no-referrer');
    }
  });

  it.each(['image', 'script', 'style', 'empty', 'font', 'frame', 'object', 'x'])(
    'refuse a login requested as a subresource (Sec-Fetch-Dest: %s)',
    async (destination) => {
      const reply = await new Visitor().visit(`${usual.url}/auth/login`, {
        headers: { 'sec-fetch-dest': destination },
      });
      expect([reply.status, reply.setCookies]).toEqual([400, []]);
      expect(JSON.parse(reply.text)).toMatchObject({ statusCode: 400, code: 'invalid_argument' });
    },
  );

  it.each(['document', 'iframe', undefined])('start a login by navigation (%s)', async (destination) => {
    const reply = await new Visitor().visit(`${usual.url}/auth/login`, {
      headers: destination === undefined ? {} : { 'sec-fetch-dest': destination },
    });
    expect([reply.status, new URL(reply.location ?? '').origin]).toEqual([302, provider.url]);
  });

  it.each([
    ['same-site', 'lax', 302],
    ['cross-site', 'lax', 400],
    ['cross-site', 'strict', 400],
    ['cross-site', 'none', 302],
  ] as const)('start a login in a %s frame with cookies.sameSite %s: %i', async (site, sameSite, status) => {
    const redirectUri = 'https://host.example.com/auth/callback';
    host = await startHost({
      kind,
      options: () => ({
        tenant: provider.tenantOptions(redirectUri),
        secrets: [COOKIE_SECRET],
        cookies: { sameSite },
      }),
    });
    const reply = await new Visitor().visit(`${host.url}/auth/login`, {
      headers: { 'sec-fetch-dest': 'iframe', 'sec-fetch-site': site },
    });
    expect([reply.status, reply.setCookies.length]).toEqual([status, status === 302 ? 1 : 0]);
  });

  it('use the configured callback and ignore Host and X-Forwarded-Host', async () => {
    const reply = await new Visitor().visit(`${usual.url}/auth/login`, {
      headers: { 'x-forwarded-host': 'evil.example', 'x-forwarded-proto': 'https' },
    });
    expect(new URL(reply.location ?? '').searchParams.get('redirect_uri')).toBe(usual.callback);
  });

  it('refuse an event id that is too long for a cookie', async () => {
    const visitor = new Visitor();
    const fits = await toProvider(visitor, usual, `?eventId=${'ü'.repeat(64)}`);
    expect((await toHost(visitor, fits)).status).toBe(303);
    expect((await identityOf(visitor, usual))?.eventId).toBe('ü'.repeat(64));
    const tooLong = await visitor.visit(`${usual.url}/auth/login?eventId=${'ü'.repeat(64)}x`);
    expect(tooLong.status).toBe(400);
    expect(JSON.parse(tooLong.text)).toMatchObject({ code: 'invalid_argument' });
  });

  it('end a login with 303 also after a form, so that a reload does not post again', async () => {
    host = await startHost({
      kind,
      options: (callback) => ({
        tenant: provider.tenantOptions(callback, { responseType: 'code id_token' }),
        secrets: [COOKIE_SECRET],
      }),
    });
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host, '?returnTo=/page');
    expect(arrival.method).toBe('POST');
    const reply = await toHost(visitor, arrival);
    expect([reply.status, reply.location]).toEqual([303, `${host.url}/page`]);
  });
});
