/** The recipes of docs/recipes.md about browsers, proxies, limits and logs, as they are. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  UseGuards,
  type DynamicModule,
  type INestApplication,
  type Type,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { Logger } from 'nestjs-pino';
import { firstValueFrom } from 'rxjs';
import {
  ExhibitorsService,
  type ExhibitorModuleOptions,
  type LoginOptions,
  type LoginRoutes,
} from '../../lib/index.js';
import { open, PAGE } from '../nest/people.js';
import { bodyOf, idsOf, signIn } from '../nest/signed-in.js';
import { acmeOptions, COOKIE_SECRET, startHost } from '../support/host.js';
import { useClosing, useHost, useSandbox } from '../support/lifetimes.js';
import { loadSnippets } from '../support/snippets.js';
import { Visitor } from '../support/visitor.js';

const sandbox = await useSandbox();
const closing = useClosing();
beforeEach(() => sandbox.signInAs('sam.several'));

describe.each(['express', 'fastify'] as const)('an application on another origin, on %s', (kind) => {
  interface Recipe {
    ofApp: Pick<ExhibitorModuleOptions, 'trustedOrigins'>;
    allowApp(app: INestApplication): void;
    ofLogin: Pick<LoginOptions, 'endSession' | 'postLogoutRedirectUri'>;
    routes: LoginRoutes;
    AppController: Type;
  }
  const APP = 'http://127.0.0.1:5173';
  const host = useHost(async () => {
    process.env['APP_ORIGIN'] = APP;
    const { ofApp, ofLogin, allowApp, routes, AppController } = await loadSnippets<Recipe>(
      'recipes.md',
      'spa',
    );
    delete process.env['APP_ORIGIN'];
    return startHost({
      kind,
      controllers: [AppController],
      configure: allowApp,
      options: (redirectUri) => {
        const tenant = sandbox.tenantOptions('acme', { redirectUri });
        const login = { ...tenant.login, ...ofLogin };
        return { tenant: { ...tenant, login }, secrets: [COOKIE_SECRET], isGlobal: true, routes, ...ofApp };
      },
    });
  });

  const toApp = ({ origin }: URL): boolean => origin === APP;

  it('is where people end who go back to a login that they cancelled, or go to the start page', async () => {
    const visitor = new Visitor();
    const returnTo = `/app?${new URLSearchParams({ page: 'booth?hall=7' })}`;
    const start = `${host.url}/auth/login?${new URLSearchParams({ returnTo })}`;
    const begun = await visitor.visit(start);
    const state = new URL(begun.location ?? '').searchParams.get('state') ?? '';
    const cancelled = `${host.url}/auth/callback?${new URLSearchParams({ state, error: 'access_denied' })}`;
    const failed = await visitor.visit(cancelled, { headers: PAGE });
    const page = await open(visitor, failed.location ?? '');
    expect(page.text).toContain('<a href="/app">Go to the start page</a>');
    await visitor.follow(start, toApp);
    const back = await visitor.follow(failed.location ?? '', toApp, PAGE);
    expect(back.location).toBe(`${APP}/booth?hall=7`);
  });

  it.each([
    ['', '/'],
    ['?page=booth%3Fhall=7', '/booth?hall=7'],
    ['?page=/evil.example', '//evil.example'],
    ['?page=@evil.example', '/@evil.example'],
    ['?page=.evil.example', '/.evil.example'],
    ['?page=%0d%0a/%5cevil.example', '///evil.example'],
    ['?page=a&page=b', '/a,b'],
  ])('is all that a link to /app%s leads to', async (query, path) => {
    const { status, location } = await new Visitor().visit(`${host.url}/app${query}`);
    expect([status, location]).toEqual([302, `${APP}${path}`]);
    expect(new URL(location ?? '').origin).toBe(APP);
  });

  it('logs in by a navigation, reads who is logged in, which no other origin may, and logs out by a form', async () => {
    const visitor = new Visitor();
    const { location } = await visitor.follow(`${host.url}/auth/login?returnTo=/app%3Fpage=booth`, toApp);
    expect(location).toBe(`${APP}/booth`);

    const ofApp = { origin: APP, 'sec-fetch-site': 'same-site' };
    const me = await visitor.visit(`${host.url}/auth/me`, { headers: ofApp });
    const email = 'sam.several@example.com';
    expect(bodyOf(me)).toEqual({ email, tenant: 'default', expiresAt: expect.any(Number) });
    expect(me.headers.get('access-control-allow-origin')).toBe(APP);
    expect(me.headers.get('access-control-allow-credentials')).toBe('true');
    const elsewhere = { ...ofApp, origin: 'http://127.0.0.1:8000' };
    const refused = await visitor.visit(`${host.url}/auth/me`, { headers: elsewhere });
    expect(refused.headers.get('access-control-allow-origin')).not.toBe(elsewhere.origin);

    const json = { eventId: 'world-2026', exhibitorId: idsOf(sandbox)[0] };
    const choose = (headers: Record<string, string>) =>
      visitor.visit(`${host.url}/auth/choose`, { json, headers });
    expect((await choose(elsewhere)).status).toBe(400);
    expect((await choose(ofApp)).status).toBe(204);
    const read = await visitor.visit(`${host.url}/auth/choose?eventId=world-2026`, { headers: ofApp });
    expect(bodyOf(read)).toMatchObject({ eventId: 'world-2026', chosen: json.exhibitorId });

    const logout = (headers: Record<string, string>) =>
      visitor.visit(`${host.url}/auth/logout`, { form: {}, headers });
    expect((await logout(elsewhere)).status).toBe(400);
    expect((await visitor.visit(`${host.url}/auth/me`)).status).toBe(200);
    const ended = await logout(ofApp);
    expect(ended.status).toBe(303);
    const endSession = new URL(String(ended.location));
    expect(endSession.href).toContain(`${sandbox.url}/connect/endsession?`);
    expect(endSession.searchParams.get('post_logout_redirect_uri')).toBe(`${APP}/`);
    expect((await visitor.visit(`${host.url}/auth/me`)).status).toBe(401);
  });
});

describe('the guards of docs/login.md on Fastify', () => {
  const host = useHost(async () => {
    const { CallbackGuard, LoginGuard } = await loadSnippets<{ CallbackGuard: Type; LoginGuard: Type }>(
      'login.md',
      'failed login',
      'login guard',
    );

    @Controller('auth')
    class AuthController {
      @Get('login')
      @UseGuards(LoginGuard)
      login(): void {}

      @Get('callback')
      @UseGuards(CallbackGuard)
      callback(): void {}
    }
    return startHost({ kind: 'fastify', controllers: [AuthController], options: acmeOptions(sandbox) });
  });

  it.each([
    ['uma.unverified', '?problem=email_unverified&eventId=world-2026&returnTo=%2Fbooth'],
    [undefined, '?problem=state'],
  ])('lead %s to a page of the host, with what the login was for', async (person, query) => {
    sandbox.signInAs(person ?? 'olga.one');
    const start = `${host.url}/auth/login?eventId=world-2026&returnTo=/booth`;
    const page = await new Visitor().follow(person === undefined ? `${host.url}/auth/callback` : start);
    expect(page.url).toBe(`${host.url}/auth/problem${query}`);
  });

  it('ask who logs in, where the request says so', async () => {
    const promptOf = async (query: string): Promise<string | null> => {
      const { location = '' } = await new Visitor().visit(`${host.url}/auth/login${query}`);
      return new URL(location).searchParams.get('prompt');
    };
    expect([await promptOf('?switch'), await promptOf('')]).toEqual(['login', null]);
  });
});

it('a rate limit lets requests start evenly', async () => {
  const { rateLimit } = await loadSnippets<{
    rateLimit(perSecond: number): NonNullable<ExhibitorModuleOptions['axios']>;
  }>('recipes.md', 'rate');
  const host = closing(await startHost({ options: acmeOptions(sandbox, { axios: rateLimit(20) }) }));
  const exhibitors = host.app.get(ExhibitorsService);
  const list = () => firstValueFrom(exhibitors.list('world-2026', { itemsPerPage: 1 }));
  await list();
  sandbox.clearRequests();
  await Promise.all(Array.from({ length: 6 }, list));
  const times = sandbox.requests.map(({ at }) => at);
  expect(times).toHaveLength(6);
  expect(Math.max(...times) - Math.min(...times)).toBeGreaterThanOrEqual(5 * 50 - 20);
});

/** nestjs-pino has one logger in a process, with the stream that it got first. */
const lines: string[] = [];

describe('the logs of nestjs-pino on Fastify', () => {
  interface Recipe {
    logging(stream: { write(line: string): void }): DynamicModule;
    UserInLogs: Type;
  }

  it('name tenant and user of a guarded request, and show no cookie, code or address', async () => {
    const { logging, UserInLogs } = await loadSnippets<Recipe>('recipes.md', 'pino');
    lines.length = 0;
    const host = await startHost({
      kind: 'fastify',
      importedBefore: [logging({ write: (line) => void lines.push(line) }) as never],
      providers: [{ provide: APP_INTERCEPTOR, useClass: UserInLogs }],
      configure: (app) => app.useLogger(app.get(Logger)),
      options: acmeOptions(sandbox),
    });
    const visitor = await signIn(sandbox, host);
    expect((await visitor.visit(`${host.url}/me`)).status).toBe(200);
    await visitor.visit(`${host.url}/auth/callback?error=made_up`);
    await host.close();

    const records = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    const guarded = records.find(({ req }) => Object(req).url === '/me');
    expect(guarded).toMatchObject({ tenant: 'default', subject: 'sam.several', res: { statusCode: 200 } });
    const text = lines.join('');
    expect(text).toContain('/auth/callback');
    for (const value of visitor.cookies('127.0.0.1').values()) {
      expect(text).not.toContain(value);
    }
    expect(text).not.toMatch(/code=|state=|sam\.several@|"eyJ/);
    // What this package logs goes to pino as well.
    expect(records.some(({ context }) => context === 'nestjs-exhibitor')).toBe(true);
  });
});
