/** The recipes of docs/recipes.md, options.md, tenants.md, operations.md, scaling.md and ending-logins.md, as they are. */
import {
  Controller,
  Get,
  Inject,
  Module,
  UseGuards,
  type DynamicModule,
  type INestApplication,
  type Type,
} from '@nestjs/common';
import { DocumentBuilder, SwaggerModule } from '@nestjs/swagger';
import { Test } from '@nestjs/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import session from 'express-session';
import { ClsService, type ClsStore } from 'nestjs-cls';
import { createClient } from 'redis';
import { firstValueFrom } from 'rxjs';
import request from 'supertest';
import * as undici from 'undici';
import {
  AllowAnonymous,
  CurrentIdentity,
  CurrentTenant,
  ExhibitorGuard,
  ExhibitorIdentityGuard,
  ExhibitorsService,
  type TenantOptions,
  type ExhibitorContext,
  type ExhibitorIdentity,
  type ExhibitorModuleOptions,
  type ExhibitorRequest,
} from '../../lib/index.js';
import type { CustomFault } from '../../lib/development/sandbox/faults.js';
import type { RedisSharedStore } from '../../lib/integrations/redis/index.js';
import { ExhibitorTestingBackend, ExhibitorTestingModule } from '../../lib/development/testing/index.js';
import { answerOf, bodyOf, idsOf, logOut, refused, signIn } from '../nest/signed-in.js';
import { copyOf, identityOf } from '../login/journey.js';
import { BoothController } from '../support/booth.controller.js';
import {
  acmeOptions,
  COOKIE_SECRET,
  createApp,
  startHost,
  tenantsOptions,
  type Host,
  type HostOptions,
} from '../support/host.js';
import { useClosing, useHost, useSandbox } from '../support/lifetimes.js';
import { describeWithRedis, RedisServer } from '../support/redis.js';
import { freePort } from '../support/server.js';
import { loadSnippets } from '../support/snippets.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { eventually } from '../support/wait.js';

const HTML = 'text/html,application/xhtml+xml';
const [ONE, TWO] = [
  { id: 'x-1', name: 'Ångström <b>&</b> "Sons"' },
  { id: 'x-2', name: 'Zwei' },
];

const sandbox = await useSandbox();
const closing = useClosing();
/** For guards in other modules. */
const global = acmeOptions(sandbox, { isGlobal: true });
const start = async (options: HostOptions): Promise<Host> => closing(await startHost(options));

/** Runs `work` with the variables of a host in the environment. */
async function withEnvironment<T>(variables: Record<string, string>, work: () => Promise<T>): Promise<T> {
  const before = { ...process.env };
  Object.assign(process.env, variables);
  return work().finally(() => (process.env = before));
}

interface PortalStore extends ClsStore {
  exhibitor?: ExhibitorContext;
}

interface Recipes {
  LiveListController: Type;
  userInServices: DynamicModule;
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
    const recipes = await loadSnippets<Recipes>('recipes.md', 'progress', 'cls');
    @Controller('events/:eventId/me')
    class UserController {
      constructor(@Inject(ClsService) private readonly cls: ClsService<PortalStore>) {}
      @Get()
      @UseGuards(ExhibitorGuard)
      async me() {
        await Promise.resolve();
        return { email: this.cls.get('exhibitor')?.identity.email };
      }
    }

    @Module({
      imports: [ExhibitorTestingModule.forRoot(world), recipes.userInServices],
      controllers: [recipes.LiveListController, UserController],
    })
    class AppModule {}

    app = await createApp(kind, AppModule);
    await app.listen(0, '127.0.0.1');
    backend = app.get(ExhibitorTestingBackend);
  });
  beforeEach(() => backend.signIn({ email: 'ann@example.com' }));
  afterAll(() => app?.close());

  const get = (path: string, accept = HTML) => request(app.getHttpServer()).get(path).set('Accept', accept);

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
  it.each([
    ['express', 'sessions'],
    ['fastify', 'fastify sessions'],
  ] as const)('keep the identity in a session of Passport on %s', async (kind, name) => {
    const { useSessions } = await loadSnippets<{
      useSessions(app: INestApplication, secret: string, secure: boolean): unknown;
    }>('recipes.md', name);
    const host = await start({
      kind,
      configure: (app) => useSessions(app, COOKIE_SECRET, false),
      options: acmeOptions(sandbox, { session: 'host' }),
    });
    const visitor = await signIn(sandbox, host);
    const mine = idsOf(sandbox).map((id) => ({ id }));
    expect(answerOf(await visitor.visit(`${host.url}/events/world-2026/mine`))).toMatchObject([200, mine]);
  });

  it('keep the identity in an express-session without Passport, with a new id', async () => {
    const own = await loadSnippets<
      Record<'SessionCallbackGuard' | 'SessionLogoutGuard', Type> & { readUser: object }
    >('recipes.md', 'own sessions');

    @Controller()
    class UserController {
      @Get('me')
      @UseGuards(ExhibitorIdentityGuard)
      me(@CurrentIdentity() identity: ExhibitorIdentity) {
        return { identity };
      }
    }
    const guards = { callback: own.SessionCallbackGuard, logout: own.SessionLogoutGuard };
    const host = await start({
      controllers: [UserController],
      configure: (app) => {
        app.use(session({ secret: COOKIE_SECRET, resave: false, saveUninitialized: true }));
        app.use(own.readUser);
      },
      options: acmeOptions(sandbox, { session: 'host', routes: { path: 'auth', guards } }),
    });
    const visitor = new Visitor();
    await visitor.visit(`${host.url}/me`);
    const planted = copyOf(visitor, host);
    await signIn(sandbox, host, 'sam.several', {}, visitor);
    expect(await identityOf(visitor, host)).toBeDefined();
    expect(await identityOf(planted, host)).toBeUndefined();
    await logOut(visitor, host);
    expect(await identityOf(visitor, host)).toBeUndefined();
  });

  it('read their options from registerAs', async () => {
    const module = await withEnvironment(sandbox.environment('acme'), async () => {
      const { imports } = await loadSnippets<{ imports: Type[] }>('options.md', 'config');
      return closing(await Test.createTestingModule({ imports }).compile());
    });
    const page = await firstValueFrom(module.get(ExhibitorsService).list('world-2026'));
    expect(page).toHaveProperty('data');
  });

  it('serve two tenants of one environment, on Fastify', async () => {
    const { AppModule } = await loadSnippets<{ AppModule: Type }>('tenants.md', 'two tenants');
    const url = `http://127.0.0.1:${await freePort()}`;
    const variables = ['acme', 'globex'].map((key) =>
      sandbox.environment(key, {
        prefix: `${key.toUpperCase()}_`,
        redirectUri: `${url}/${key}/auth/callback`,
      }),
    );
    const app = await withEnvironment(Object.assign({}, ...variables), () => createApp('fastify', AppModule));
    closing(app);
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
    const { location: home } = await logOut(visitor, { url: `${url}/globex` });
    expect((await visitor.visit(String(home))).text).toContain('href="/globex/events/world-2026/mine"');
    expect((await visitor.visit(mine)).status).toBe(401);
  });

  const [acme, globex] = [{ tenant: 'acme' }, { tenant: 'globex' }];
  const none = { code: 'unknown_tenant' };
  it.each<[name: 'byPath' | 'byHostName', ...visits: [host: string, path: string, reply: object][]]>([
    ['byPath', ['any.example.com', '/acme/page', acme], ['any.example.com', '/none/page', none]],
    [
      'byHostName',
      ['acme.portal.example.com:3000', '/x/page', acme],
      ['globex.portal.example.com', '/x/page', globex],
      ['unknown.example.com', '/auth/login', none],
      ['unknown.example.com', '/x/page', none],
    ],
  ])('find the tenant %s', async (name, ...visits) => {
    const recipe = await loadSnippets<Record<typeof name, (request: ExhibitorRequest) => string | undefined>>(
      'tenants.md',
      'tenant',
    );

    @Controller()
    class TenantController {
      @Get(':tenant/page')
      @AllowAnonymous()
      @UseGuards(ExhibitorIdentityGuard)
      page(@CurrentTenant() tenant: string): object {
        return { tenant };
      }
    }
    const { url } = await start({
      controllers: [TenantController],
      options: tenantsOptions(sandbox, ['acme', 'globex'], { routes: 'auth', resolveTenant: recipe[name] }),
    });
    for (const [host, path, reply] of visits) {
      const { status, body } = await request(url).get(path).set('Host', host);
      expect([path, status, body]).toEqual([
        path,
        reply === none ? 404 : 200,
        expect.objectContaining(reply),
      ]);
    }
  });
});

describe('hosts that read events', () => {
  interface Controllers {
    DownloadController: Type;
    MyEventsController: Type;
  }
  const host = useHost(async () => {
    const { DownloadController, MyEventsController } = await loadSnippets<Controllers>(
      'reading-events.md',
      'download',
      'several events',
    );
    return startHost({
      controllers: [BoothController, DownloadController, MyEventsController],
      options: acmeOptions(sandbox, { http: { attempts: 1 } }),
    });
  });
  const lines = (text: string): string[] => text.trimEnd().split('\n');

  it('send a whole event as a file', async () => {
    const visitor = await signIn(sandbox, host);
    const { status, headers, text } = await visitor.visit(`${host.url}/events/world-2026/exhibitors.ndjson`);
    expect([status, headers.get('content-disposition')]).toEqual([200, expect.stringContaining('filename=')]);
    expect(lines(text)).toHaveLength(sandbox.exhibitors('world-2026', 'acme').length);
  });

  it('answer by its status what fails before the first byte, and break the connection after it', async () => {
    const visitor = await signIn(sandbox, host);
    const file = (event: string): Promise<Reply> =>
      visitor.visit(`${host.url}/events/${event}/exhibitors.ndjson`);
    expect(answerOf(await file('none-2026'))).toMatchObject([404, { code: 'not_found' }]);
    const failure = { kind: 'status', status: 503 } as const;
    sandbox.failNext('list', failure);
    expect(answerOf(await file('world-2026'))).toMatchObject([503, { code: 'service_unavailable' }]);
    const send: CustomFault['send'] = async ({ url }, response, sendRegularReply) =>
      url?.includes('Page=9') === true ? void response.writeHead(503).end() : sendRegularReply();
    sandbox.failNext('list', { kind: 'custom', send }, Infinity);
    await expect(file('world-2026')).rejects.toThrow('aborted');
  });

  it('look up several events of a person at once', async () => {
    const visitor = await signIn(sandbox, host);
    const found = bodyOf<{ eventId: string; exhibitors: object[] }[]>(
      await visitor.visit(`${host.url}/my-events`),
    );
    const counts = found.map(({ eventId, exhibitors }) => [eventId, exhibitors.length]);
    expect(new Map(counts as [string, number][]).get('world-2026')).toBe(3);
  });
});

describe('a host with GraphQL', () => {
  it('finds the event in the arguments of a query, in the path of a route beside it, and for a login', async () => {
    const { BoothResolver, graphql, resolveEvent } = await loadSnippets<{
      BoothResolver: Type;
      graphql: DynamicModule;
      resolveEvent: ExhibitorModuleOptions['resolveEvent'];
    }>('recipes.md', 'graphql');
    @Module({ imports: [graphql] })
    class SchemaModule {}

    const host = await start({
      providers: [BoothResolver],
      importedBefore: [SchemaModule],
      options: acmeOptions(sandbox, { resolveEvent }),
    });
    const visitor = await signIn(sandbox, host);
    const mine = idsOf(sandbox).map((id) => ({ id }));
    const query = '{ booths(eventId: "world-2026") { id } }';
    const reply = await visitor.visit(`${host.url}/graphql`, { json: { query } });
    expect(bodyOf(reply)).toEqual({ data: { booths: mine } });
    expect(answerOf(await visitor.visit(`${host.url}/events/world-2026/mine`))).toMatchObject([200, mine]);
    expect(answerOf(await visitor.visit(`${host.url}/mine?eventId=world-2026`))).toEqual(
      refused(400, 'event_required'),
    );
  });
});

describe.each(['express', 'fastify'] as const)('drainOnSigterm, on %s', (kind) => {
  it('fails the readiness check, answers requests without keeping their connections, and closes', async () => {
    const { drainOnSigterm } = await loadSnippets<{
      drainOnSigterm(app: INestApplication, pause: number): void;
    }>('operations.md', 'drain');
    const host = await startHost({
      kind,
      options: acmeOptions(sandbox),
      configure: (app) => drainOnSigterm(app, 300),
    });
    const connections = new undici.Agent();
    const get = async (path: string) => {
      const { statusCode, headers, body } = await undici.request(`${host.url}${path}`, {
        dispatcher: connections,
      });
      await body.dump();
      return [statusCode, headers['connection'] === 'close'];
    };
    expect(await get('/serving')).toEqual([200, false]);
    process.emit('SIGTERM');
    expect(await get('/serving')).toEqual([503, true]);
    expect(await get('/events/world-2026/mine')).toEqual([401, true]);
    const closed = () => get('/serving').then(Boolean, () => 'refused');
    await eventually(async () => (await closed()) === 'refused');
    await connections.close();
  });
});

describe('logins that @nestjs/throttler limits', () => {
  it('set no cookie and ask nobody beyond the limit, on Fastify', async () => {
    const { LimitsModule } = await loadSnippets<{ LimitsModule: Type }>('operations.md', 'throttler');
    const host = await start({
      kind: 'fastify',
      options: acmeOptions(sandbox, { isGlobal: true, routes: 'auth' }),
      controllers: [],
      importedAfter: [LimitsModule],
    });
    const visitor = new Visitor();
    const replies = [];
    for (let count = 0; count < 11; count += 1) {
      replies.push(await visitor.visit(`${host.url}/auth/login`));
    }
    expect(replies.map(({ status }) => status)).toEqual([...Array<number>(10).fill(302), 429]);
    expect(replies.at(-1)?.setCookies).toEqual([]);
    // Each route has its own limit.
    expect((await visitor.visit(`${host.url}/auth/callback`)).status).toBe(401);
    // Others have none.
    for (let count = 0; count < 11; count += 1) {
      expect((await visitor.visit(`${host.url}/auth/me`)).status).toBe(401);
    }
  });
});

it('the document of @nestjs/swagger names the statuses of guarded routes and the cookie, with and without TLS', async () => {
  const { BoothController: Booth, addLogin } = await loadSnippets<{
    BoothController: Type;
    addLogin(document: DocumentBuilder, redirectUri: string): DocumentBuilder;
  }>('recipes.md', 'swagger');
  const { app } = await start({ options: global, controllers: [Booth] });
  const documentFor = (redirectUri: string) =>
    SwaggerModule.createDocument(app, addLogin(new DocumentBuilder(), redirectUri).build());
  const { paths, components } = documentFor('http://127.0.0.1:3000/auth/callback');
  const booth = paths['/events/{eventId}/booth']?.get;
  expect(booth).toMatchObject({
    parameters: [{ name: 'eventId', in: 'path', required: true }],
    security: [{ login: [] }],
  });
  expect(Object.keys(booth?.responses ?? {})).toEqual(['200', '401', '403', '409']);
  const cookie = { type: 'apiKey', in: 'cookie', name: 'exhibitor-identity' };
  expect(components?.securitySchemes?.['login']).toEqual(cookie);
  const withTls = documentFor('https://host.example.com/auth/callback').components?.securitySchemes;
  expect(withTls?.['login']).toEqual({ ...cookie, name: '__Host-exhibitor-identity' });
});

describe('an administrator', () => {
  it('ends every login of a user, and nobody else does', async () => {
    const { PeopleController } = await loadSnippets<{ PeopleController: Type }>('ending-logins.md', 'stolen');
    const host = await start({
      controllers: [BoothController, PeopleController],
      options: acmeOptions(sandbox),
    });
    process.env['ADMINISTRATORS'] = 'olga.one@example.com';
    const [stolen, nora] = [await signIn(sandbox, host), await signIn(sandbox, host, 'nora.none')];
    const olga = await signIn(sandbox, host, 'olga.one');
    const path = `${host.url}/people/sam.several/end-logins`;
    expect((await nora.visit(path, { method: 'POST' })).status).toBe(403);
    expect(await identityOf(stolen, host)).toBeDefined();
    expect((await olga.visit(path, { method: 'POST' })).status).toBe(201);
    expect(await identityOf(stolen, host)).toBeUndefined();
    expect(await identityOf(olga, host)).toBeDefined();
    delete process.env['ADMINISTRATORS'];
  });
});

describeWithRedis('with Redis', (path) => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await RedisServer.start(path);
    process.env['REDIS_URL'] = redis.url;
  });
  afterAll(async () => {
    delete process.env['REDIS_URL'];
    await redis?.stop();
  });

  it('lets every process forget a blocked customer at once', async () => {
    interface Blocked {
      block(tenant: string): Promise<void>;
    }
    const { BlockedTenants } = await loadSnippets<{ BlockedTenants: Type<Blocked> }>(
      'ending-logins.md',
      'forget',
    );
    const startWith = (callback?: string): Promise<Host> =>
      start({
        providers: [BlockedTenants],
        options: (redirectUri) => ({
          tenants: {
            find: (key) =>
              isBlocked ? undefined : sandbox.tenantOptions(key, { redirectUri: callback ?? redirectUri }),
          },
          allowedOrigins: () => true,
          resolveTenant: () => 'acme',
          secrets: [COOKIE_SECRET],
        }),
      });
    let isBlocked = false;
    const one = await startWith();
    const two = await startWith(one.callback);
    const visitor = await signIn(sandbox, one);
    expect(await Promise.all([identityOf(visitor, one), identityOf(visitor, two)])).not.toContain(undefined);
    isBlocked = true;
    const statuses = () =>
      Promise.all([one, two].map(async ({ url }) => (await visitor.visit(`${url}/me`)).status));
    expect(await statuses()).toEqual([200, 200]);
    await one.app.get(BlockedTenants).block('acme');
    await eventually(async () => (await statuses()).every((status) => status === 404));
  });

  it('the client is open until the application has written its last logout, and closed afterwards', async () => {
    const recipe = await loadSnippets<{
      RedisConnection: Type<{ store: RedisSharedStore }>;
      exhibitorModule: DynamicModule;
    }>('scaling.md', 'redis module');
    const host = await withEnvironment({}, () =>
      startHost({
        options: (redirectUri) => {
          // After the import, as in `beforeAll` of a test of the host.
          Object.assign(process.env, sandbox.environment('acme', { redirectUri }));
          return acmeOptions(sandbox)(redirectUri);
        },
        module: () => recipe.exhibitorModule,
        controllers: [],
      }),
    );
    const { store } = host.app.get(recipe.RedisConnection, { strict: false });
    const isOpen = (): Promise<boolean> =>
      store.get('any').then(
        () => true,
        () => false,
      );
    await eventually(isOpen);
    const visitor = await signIn(sandbox, host);
    const outage = jest.spyOn(store, 'set').mockRejectedValue(new Error('an outage'));
    await logOut(visitor, host);
    const reader = createClient({ url: redis.url });
    await reader.connect();
    expect(await reader.keys('*ended-login*')).toEqual([]);
    const closed = host.close();
    outage.mockRestore();
    await closed;
    expect(await reader.keys('*ended-login*')).toHaveLength(1);
    expect(await isOpen()).toBe(false);
    reader.destroy();
  });
});

it('secrets of a vault are read: those of cookies at once, those of clients whenever one is needed', async () => {
  const { exhibitorOptions } = await loadSnippets<{
    exhibitorOptions(
      vault: { read(name: string): Promise<string> },
      tenant: TenantOptions,
    ): Promise<ExhibitorModuleOptions>;
  }>('operations.md', 'vault');
  const read = jest.fn(async (name: string) => `one-${name} two-${name}`);
  const { tenant, secrets } = await exhibitorOptions({ read }, sandbox.tenantOptions('acme'));
  expect(secrets).toEqual(['one-exhibitor/cookie-secrets', 'two-exhibitor/cookie-secrets']);
  expect(read).toHaveBeenCalledTimes(1);
  for (const [client, name] of [
    [tenant, 'exhibitor/api-client-secret'],
    [tenant?.login, 'exhibitor/login-client-secret'],
  ] as const) {
    expect(await Object(client).clientSecret()).toBe(await read(name));
  }
});
