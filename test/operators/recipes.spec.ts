/** The recipes of docs/recipes.md and docs/tenants.md, as they are. */
import {
  Controller,
  Get,
  Inject,
  Module,
  Post,
  Redirect,
  UseGuards,
  type INestApplication,
  type Type,
} from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import session from 'express-session';
import request from 'supertest';
import {
  ExhibitorGuard,
  ExhibitorIdentityGuard,
  ExhibitorLoginGuard,
  ExhibitorsService,
  type ExhibitorModuleOptions,
  type ExhibitorRequest,
} from '../../lib/index.js';
import {
  ExhibitorTestingBackend,
  ExhibitorTestingModule,
  type ExhibitorSandbox,
} from '../../lib/testing/index.js';
import { bodyOf, signIn } from '../guards/signed-in.js';
import { COOKIE_SECRET, createApp, startHost } from '../support/host.js';
import { startSandbox } from '../support/sandbox.js';
import { freePort } from '../support/server.js';
import { loadSnippets } from '../support/snippets.js';
import { Visitor } from '../support/visitor.js';

const HTML = 'text/html,application/xhtml+xml';
const [ONE, TWO] = [
  { id: 'x-1', name: 'Ångström <b>&</b> "Sons"' },
  { id: 'x-2', name: 'Zwei' },
];

interface Recipes {
  ProblemPageFilter: Type;
  ChoosingController: Type;
  LiveListController: Type;
  CurrentUser: Type<{ email: string | undefined }>;
  CurrentUserModule: Type;
}

describe.each(['express', 'fastify'] as const)('a host of the recipes on %s', (kind) => {
  let app: INestApplication;
  let backend: ExhibitorTestingBackend;
  const world = {
    identity: { email: 'ann@example.com' },
    events: { 'world-2026': [ONE, TWO] },
    contacts: { 'ann@example.com': { 'world-2026': ['x-1', 'x-2'] } },
  };

  beforeAll(async () => {
    const recipes = await loadSnippets<Recipes>('recipes.md', 'pages', 'choosing', 'progress', 'cls');
    const { CurrentUser, ProblemPageFilter } = recipes;

    @Controller('events/:eventId/me')
    class UserController {
      constructor(@Inject(CurrentUser) private readonly user: { email: string | undefined }) {}
      @Get()
      @UseGuards(ExhibitorGuard)
      async me() {
        await Promise.resolve();
        return { email: this.user.email };
      }
    }

    @Module({
      imports: [ExhibitorTestingModule.forRoot(world), recipes.CurrentUserModule],
      controllers: [recipes.ChoosingController, recipes.LiveListController, UserController],
      providers: [{ provide: APP_FILTER, useClass: ProblemPageFilter }],
    })
    class AppModule {}

    app = await createApp(kind, AppModule);
    await app.listen(0, '127.0.0.1');
    backend = app.get(ExhibitorTestingBackend);
  });
  beforeEach(() => backend.signIn({ email: 'ann@example.com' }));
  afterAll(() => app?.close());

  const get = (path: string, accept = HTML) => request(app.getHttpServer()).get(path).set('Accept', accept);

  it('shows browsers a page for 401, 403 and 409, and answers JSON to others', async () => {
    const several = await get('/events/world-2026/booth').expect(409).expect('Content-Type', /html/);
    expect(several.text).toContain('<a href="/events/world-2026/choose">');
    await get('/events/world-2026/booth', 'application/json')
      .expect(409)
      .expect(({ body }) => expect(body).toMatchObject({ code: 'exhibitor_not_selected' }));
    backend.signIn({ email: 'bob@example.com' });
    expect((await get('/events/world-2026/booth').expect(403)).text).toContain('do not represent');
    backend.signOut();
    const nobody = await get('/events/world-2026/booth').expect(401);
    expect(nobody.text).toContain('<a href="/auth/login?returnTo=%2Fevents%2Fworld-2026%2Fbooth">');
    // Others are Nest's.
    await get('/nowhere').expect(404).expect('Content-Type', /json/);
  });

  it('lets a user choose an exhibitor', async () => {
    const page = await get('/events/world-2026/choose').expect(200).expect('Content-Type', /html/);
    expect(page.text).toContain('Ångström');
    expect(page.text).not.toContain('<b>');
    const agent = request.agent(app.getHttpServer());
    const form = { exhibitorId: 'x-2' };
    await agent
      .post('/events/world-2026/choose')
      .type('form')
      .send(form)
      .expect(303)
      .expect('Location', '/events/world-2026/booth');
    await agent.get('/events/world-2026/booth').expect(200, TWO);
    await agent.post('/events/world-2026/choose').type('form').send({ exhibitorId: 'y' }).expect(400);
  });

  it('sends a list with its progress, and says when it is done or failed', async () => {
    const { text } = await get('/events/world-2026/exhibitors/live', 'text/event-stream').expect(200);
    expect(text).toContain('event: page');
    expect(text).toContain('"progress":1');
    expect(text).toContain('event: done');
    backend.failNext('pages', 'service_unavailable');
    const failed = await get('/events/world-2026/exhibitors/live', 'text/event-stream').expect(200);
    expect(failed.text).toContain('event: failed\n');
    expect(failed.text).toContain('{"code":"service_unavailable"}');
    expect(failed.text).not.toContain('event: done');
  });

  it('tells services who the user is, each request its own', async () => {
    const me = async () => (await get('/events/world-2026/me').expect(200)).body as unknown;
    expect(await me()).toEqual({ email: 'ann@example.com' });
    backend.setContact('world-2026', 'bob@example.com', ['x-1']);
    backend.signIn({ email: 'bob@example.com' });
    expect(await me()).toEqual({ email: 'bob@example.com' });
  });
});

describe('hosts with a login', () => {
  let sandbox: ExhibitorSandbox;
  beforeAll(async () => {
    sandbox = await startSandbox();
  });
  afterAll(() => sandbox?.stop());

  it('keep the identity in an express-session', async () => {
    const { useSessions } = await loadSnippets<{ useSessions(app: INestApplication, secret: string): void }>(
      'recipes.md',
      'sessions',
    );
    const host = await startHost({
      configure: (app) => useSessions(app, COOKIE_SECRET),
      options: (redirectUri) => ({
        session: 'host',
        secrets: [COOKIE_SECRET],
        tenant: sandbox.tenantOptions('acme', { redirectUri }),
      }),
    });
    const visitor = await signIn(sandbox, host);
    const reply = await visitor.visit(`${host.url}/events/world-2026/mine`);
    expect(reply.status).toBe(200);
    expect(bodyOf<unknown[]>(reply)).toHaveLength(3);
    await host.close();
  });

  it('keep the identity in an express-session without Passport, with a new id', async () => {
    const own = await loadSnippets<
      Record<'SessionCallbackGuard' | 'SessionLogoutGuard', Type> & { readUser: object }
    >('recipes.md', 'own sessions');

    @Controller()
    class OwnController {
      @Get('auth/login')
      @UseGuards(ExhibitorLoginGuard)
      login(): void {}

      @Get('auth/callback')
      @UseGuards(own.SessionCallbackGuard)
      @Redirect('/landed', 303)
      callback(): void {}

      @Post('auth/logout')
      @UseGuards(own.SessionLogoutGuard)
      @Redirect('/', 303)
      logout(): void {}

      @Get('me')
      @UseGuards(ExhibitorIdentityGuard)
      me(): object {
        return {};
      }
    }
    const host = await startHost({
      controllers: [OwnController],
      configure: (app) => {
        app.use(session({ secret: COOKIE_SECRET, resave: false, saveUninitialized: true }));
        app.use(own.readUser);
      },
      options: (redirectUri) => ({
        session: 'host',
        secrets: [COOKIE_SECRET],
        tenant: sandbox.tenantOptions('acme', { redirectUri }),
      }),
    });
    const visitor = new Visitor();
    await visitor.visit(`${host.url}/me`);
    const planted = visitor.cookies('127.0.0.1').get('connect.sid');
    await signIn(sandbox, host, 'sam.several', {}, visitor);
    expect((await visitor.visit(`${host.url}/me`)).status).toBe(200);
    const thief = new Visitor();
    thief.cookies('127.0.0.1').set('connect.sid', String(planted));
    expect((await thief.visit(`${host.url}/me`)).status).toBe(401);
    await visitor.visit(`${host.url}/auth/logout`, { method: 'POST' });
    expect((await visitor.visit(`${host.url}/me`)).status).toBe(401);
    await host.close();
  });

  it('accept the access tokens of a mobile app', async () => {
    const { bearerOptions } = await loadSnippets<{ bearerOptions: () => ExhibitorModuleOptions }>(
      'recipes.md',
      'bearer',
    );
    const token = await sandbox.accessToken('sam.several@example.com');
    const before = { ...process.env };
    Object.assign(process.env, sandbox.environment('acme'));
    const host = await startHost({ options: () => bearerOptions() });
    process.env = before;
    const mine = () => request(host.url).get('/events/world-2026/mine');
    const { body } = await mine().set('Authorization', `Bearer ${token}`).expect(200);
    expect(body).toHaveLength(3);
    await mine().expect(401);
    await host.close();
  });

  it('read their options from registerAs', async () => {
    const before = { ...process.env };
    Object.assign(process.env, sandbox.environment('acme'));
    try {
      const { imports } = await loadSnippets<{ imports: Type[] }>('recipes.md', 'config');
      const module = await Test.createTestingModule({ imports }).compile();
      const page = module.get(ExhibitorsService).list('world-2026');
      expect(
        await new Promise((resolve, reject) => page.subscribe({ next: resolve, error: reject })),
      ).toHaveProperty('data');
      await module.close();
    } finally {
      process.env = before;
    }
  });

  it('serve two tenants of one environment, on Fastify', async () => {
    const { AppModule } = await loadSnippets<{ AppModule: Type }>('tenants.md', 'two tenants');
    const before = { ...process.env };
    const url = `http://127.0.0.1:${await freePort()}`;
    const redirectUri = `${url}/auth/callback`;
    for (const key of ['acme', 'globex']) {
      const prefix = `${key.toUpperCase()}_`;
      Object.assign(process.env, sandbox.environment(key, { prefix, redirectUri }));
    }
    const app = await createApp('fastify', AppModule).finally(() => (process.env = before));
    await app.listen(new URL(url).port, '127.0.0.1');
    sandbox.signInAs('sam.several');
    const visitor = new Visitor();
    const mine = `${url}/globex/events/world-2026/mine`;
    const headers = { accept: HTML, 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' };
    const { location = '' } = await visitor.visit(mine, { headers });
    expect(location).toContain('/globex/auth/login');
    await visitor.follow(location, ({ href }) => href === mine);
    const records = sandbox
      .exhibitors('world-2026', 'globex')
      .filter(({ contactEmails }) => contactEmails.includes('sam.several@example.com'));
    expect(bodyOf(await visitor.visit(mine))).toEqual(records.map(({ id, name }) => ({ id, name })));
    expect((await visitor.visit(`${url}/acme/events/world-2026/mine`)).status).toBe(401);
    const { location: home } = await visitor.visit(`${url}/auth/logout`, { method: 'POST' });
    expect((await visitor.visit(String(home))).text).toContain('href="/globex/events/world-2026/mine"');
    expect((await visitor.visit(mine)).status).toBe(401);
    await app.close();
  });

  it('find the tenant by path or by host name', async () => {
    type Resolve = (request: ExhibitorRequest) => string | undefined;
    const { byPath, byHostName } = await loadSnippets<{ byPath: Resolve; byHostName: Resolve }>(
      'tenants.md',
      'tenant',
    );

    @Controller()
    class TenantController {
      @Get(':tenant/page')
      @UseGuards(ExhibitorIdentityGuard)
      page(): void {}
    }

    for (const [resolveTenant, ...visits] of [
      [byPath, ['any.example.com', '/acme/page', 401], ['any.example.com', '/none/page', 404]],
      [
        byHostName,
        ['acme.portal.example.com:3000', '/x/page', 401],
        ['globex.portal.example.com', '/x/page', 404],
      ],
    ] as const) {
      const served = await startHost({
        controllers: [TenantController],
        options: (redirectUri) => ({
          resolveTenant,
          secrets: [COOKIE_SECRET],
          tenants: { acme: sandbox.tenantOptions('acme', { redirectUri }) },
        }),
      });
      for (const [host, path, status] of visits) {
        await request(served.url).get(path).set('Host', host).expect(status);
      }
      await served.close();
    }
  });
});
