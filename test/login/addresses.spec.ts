import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { connect, type ClientHttp2Session, type IncomingHttpHeaders } from 'node:http2';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Module, UseGuards } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { ExhibitorIdentityGuard, ExhibitorModule, type HttpContext } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/development/testing/index.js';
import { routesOf } from '../nest/routes-of.js';
import { signIn } from '../nest/signed-in.js';
import { BoothController } from '../support/booth.controller.js';
import { acmeOptions, startHost } from '../support/host.js';
import { pemOf } from '../support/keys.js';
import { useHost, useSandbox } from '../support/lifetimes.js';
import { startSandbox } from '../support/sandbox.js';
import { freePort } from '../support/server.js';
import { Visitor } from '../support/visitor.js';
import { logOut } from './journey.js';

class LeadingGuard extends ExhibitorIdentityGuard {
  protected override onNoIdentity(http: HttpContext): Promise<never> {
    return this.redirectToLogin(http, '/auth/login');
  }
}

const PAGES = routesOf({ page: [UseGuards(LeadingGuard)] });
const APP = 'https://app.example.com';
const sandbox = await useSandbox();

/** The address of the callback with the response of the provider. */
async function toCallback(visitor: Visitor, login: string): Promise<string> {
  sandbox.signInAs('olga.one');
  const { origin } = new URL(login);
  return (await visitor.follow(login, (next) => next.origin === origin)).location ?? '';
}

const cookieOf = (visitor: Visitor): string =>
  [...visitor.cookies()].map(([name, value]) => `${name}=${value}`).join('; ');

describe.each(['express', 'fastify'] as const)('the address of a request on %s', (kind) => {
  const host = useHost(() =>
    startHost({
      kind,
      controllers: [BoothController, PAGES],
      options: acmeOptions(sandbox, { trustedOrigins: [APP] }),
    }),
  );

  /** Sends a request with a target as it is. Answers its status and the address that it leads to. */
  async function send(method: string, target: string, headers: Record<string, string>): Promise<unknown[]> {
    const { port } = new URL(host.url);
    const sent = request({ host: '127.0.0.1', port, path: target, method, headers });
    sent.end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    response.resume();
    return [response.statusCode, response.headers.location];
  }

  /** A logout of nobody, whose tenant is not known, so that the page is compared with the host of the request. */
  const logOutOf = async (origin: string, to: string, target = '/auth/logout'): Promise<unknown> =>
    (await send('POST', target, { origin, host: to }))[0];

  it.each<[origin: string, to: string, target?: string]>([
    ['https://portal', 'portal:443'],
    ['http://portal', 'portal:80'],
    ['https://portal', 'PORTAL'],
    ['https://portal:8443', 'Portal:8443'],
    ['https://PORTAL:443', 'portal'],
    ['https://portal.', 'portal.:443'],
    ['http://[::1]', '[0:0:0:0:0:0:0:1]:80'],
    ['http://[::ffff:7f00:1]:8080', '[::FFFF:127.0.0.1]:8080'],
    ['http://portal', 'internal:8080', 'http://Portal:80/auth/logout'],
    ['https://portal', 'internal:8080', 'https://portal:443/auth/logout?a=b'],
  ])('is that of the page: %s, Host: %s %s', async (...sent) => {
    expect(await logOutOf(...sent)).toBe(303);
  });

  it.each<[origin: string, to: string, target?: string]>([
    ['https://portal', 'portal:80'],
    ['http://portal', 'portal:443'],
    ['https://portal', 'portal.'],
    ['https://portal', 'portal:8443'],
    ['https://portal', 'portal.evil.example'],
    ['http://[::1]', '[::2]'],
    ['null', 'null'],
    ['file://portal', 'portal'],
    ['https://portal', 'https://portal'],
    ['http://portal', 'portal', 'http://internal/auth/logout'],
    ['http://portal', 'portal', 'http://portal:8080/auth/logout'],
  ])('is not that of the page: %s, Host: %s %s', async (...sent) => {
    expect(await logOutOf(...sent)).toBe(400);
  });

  it('is compared with redirectUri and trustedOrigins as a browser writes them, where a user leaves', async () => {
    for (const [origin, status] of [
      [`${APP.toUpperCase()}:443`, 303],
      [host.url.toUpperCase(), 303],
      [`${APP}:80`, 400],
      [`${APP}.`, 400],
    ] as const) {
      const visitor = await signIn(sandbox, host);
      expect([origin, (await logOut(visitor, host, { origin })).status]).toEqual([origin, status]);
    }
  });

  it('may be a target in absolute form: at the callback, and where a page leads to the login', async () => {
    const visitor = new Visitor();
    const callback = await toCallback(visitor, `${host.url}/auth/login?returnTo=/me`);
    expect(callback).toMatch(/^http:/);
    const headers = { cookie: cookieOf(visitor), host: 'internal:8080' };
    expect(await send('GET', callback, headers)).toEqual([303, '/me']);
    const page = await send('GET', 'http://portal//page?a=b', { accept: 'text/html' });
    const other = await send('GET', 'http://portal/page?a=b', { accept: 'text/html' });
    expect([page, other]).toEqual([
      [404, undefined],
      [302, `/auth/login?${new URLSearchParams({ returnTo: '/page?a=b' })}`],
    ]);
  });
});

const SECURE_PORT = await freePort();
const SECURE = `https://127.0.0.1:${SECURE_PORT}`;

describe('the address of a request by HTTP/2', () => {
  const redirectUri = `${SECURE}/auth/callback`;
  let app: NestFastifyApplication;
  let session: ClientHttp2Session;
  let provider: ExhibitorSandbox;
  beforeAll(async () => {
    provider = await startSandbox({ redirectUris: [redirectUri] });

    @Module({
      imports: [ExhibitorModule.forRoot({ ...acmeOptions(provider)(redirectUri), routes: 'auth' })],
    })
    class AppModule {}
    const https = { key: pemOf('provider'), cert: pemOf('provider-certificate') };
    const adapter = new FastifyAdapter({ http2: true, https } as never);
    app = await NestFactory.create<NestFastifyApplication>(AppModule, adapter, { logger: false });
    await app.listen(SECURE_PORT, '127.0.0.1');
    session = connect(SECURE, { rejectUnauthorized: false });
  });
  afterAll(async () => {
    session?.close();
    await app?.close();
    await provider?.stop();
  });

  async function send(headers: Record<string, string>): Promise<IncomingHttpHeaders> {
    const stream = session.request(headers);
    stream.end();
    const [received] = (await once(stream, 'response')) as [IncomingHttpHeaders];
    stream.resume();
    await once(stream, 'close');
    return received;
  }

  it('is in :authority: a user logs in and out, and no other page logs anybody out', async () => {
    const started = await send({ ':path': '/auth/login?returnTo=/landed' });
    const cookies = (from: IncomingHttpHeaders): string =>
      (from['set-cookie'] ?? []).map((header) => header.split(';')[0]).join('; ');
    provider.signInAs('olga.one');
    const back = await new Visitor().follow(started['location'] ?? '', (next) => next.origin === SECURE);
    const { pathname, search } = new URL(back.location ?? '');
    const finished = await send({ ':path': `${pathname}${search}`, cookie: cookies(started) });
    expect([finished[':status'], finished.location]).toEqual([303, '/landed']);
    const me = await send({ ':path': '/auth/me', cookie: cookies(finished) });
    expect(me[':status']).toBe(200);
    const leave = async (origin: string, authority: string, cookie = ''): Promise<unknown> =>
      (await send({ ':method': 'POST', ':path': '/auth/logout', ':authority': authority, origin, cookie }))[
        ':status'
      ];
    expect(await leave('https://portal', 'PORTAL:443')).toBe(303);
    expect(await leave('https://evil.example', 'portal')).toBe(400);
    expect(await leave('https://evil.example', 'portal', cookies(finished))).toBe(400);
    expect(await leave(SECURE, 'internal:8443', cookies(finished))).toBe(303);
  });
});
