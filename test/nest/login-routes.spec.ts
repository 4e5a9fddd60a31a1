import { afterEach, describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Inject,
  Injectable,
  Module,
  RequestMethod,
  VersioningType,
  type CallHandler,
  type ExecutionContext,
  type INestApplication,
  type NestInterceptor,
} from '@nestjs/common';
import { APP_GUARD, APP_INTERCEPTOR, NestFactory, RouterModule } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { DocumentBuilder, SwaggerModule } from '@nestjs/swagger';
import { Test } from '@nestjs/testing';
import express from 'express';
import { map, of, tap, type Observable } from 'rxjs';
import {
  AllowAnonymous,
  ExhibitorCallbackGuard,
  ExhibitorGuard,
  ExhibitorGuardServices,
  ExhibitorIdentityGuard,
  ExhibitorLoginGuard,
  ExhibitorLogoutGuard,
  ExhibitorModule,
  type ExhibitorError,
  type HttpContext,
  type LoginParameters,
  type LoginRoutes,
} from '../../lib/index.js';
import { ExhibitorTestingBackend, ExhibitorTestingModule } from '../../lib/development/testing/index.js';
import { COOKIE_SECRET, type Host } from '../support/host.js';
import { useClosing, useSandbox } from '../support/lifetimes.js';
import { OperatorLines } from '../support/operator-lines.js';
import { formFields, Visitor, type Reply, type VisitOptions } from '../support/visitor.js';
import { routesHosts, type Given } from './people.js';
import { bodyOf } from './signed-in.js';
import { expectError, logOut } from '../login/journey.js';

@Controller()
class HomeController {
  @Get()
  @AllowAnonymous()
  home(): string {
    return 'home';
  }
}

@Injectable()
class AuditLog {
  readonly lines: string[] = [];
}

@Module({ providers: [AuditLog], exports: [AuditLog] })
class AuditModule {}

@Injectable()
class SilentLoginGuard extends ExhibitorLoginGuard {
  protected override getLoginParameters(): LoginParameters {
    return { uiLocales: 'da' };
  }
}

@Injectable()
class AuditedCallbackGuard extends ExhibitorCallbackGuard {
  constructor(
    @Inject(ExhibitorGuardServices) services: ExhibitorGuardServices,
    @Inject(AuditLog) private readonly audit: AuditLog,
  ) {
    super(services);
  }

  protected override onLoginFailed(http: HttpContext, error: ExhibitorError): Promise<never> {
    this.audit.lines.push(error.code);
    return this.redirect(http, '/login-failed');
  }
}

@Injectable()
class ProxiedGuard extends ExhibitorCallbackGuard {
  protected override getCallbackPath(): string {
    return '/portal/auth/callback';
  }
}

@Injectable()
class LeadingLogoutGuard extends ExhibitorLogoutGuard {
  protected override onFailure(http: HttpContext): Promise<never> {
    return this.redirect(http, '/logout-failed');
  }

  /** With cookies too: the host has more of the user than the identity. */
  protected override removeIdentity(http: HttpContext): void {
    http.setHeader('x-basket', 'empty');
  }
}

@Injectable()
class SiteGuard extends ExhibitorIdentityGuard {
  protected override onNoIdentity(http: HttpContext): Promise<never> {
    return this.redirectToLogin(http, '/auth/login');
  }
}

/** Wraps every answer, and repeats it by address alone, as the global `CacheInterceptor` of `@nestjs/cache-manager` does. */
@Injectable()
class WrappingCache implements NestInterceptor {
  readonly #answers = new Map<string, unknown>();

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const { url } = context.switchToHttp().getRequest<{ url: string }>();
    const known = this.#answers.get(url);
    const answer =
      known === undefined ? next.handle().pipe(tap((data) => this.#answers.set(url, data))) : of(known);
    return answer.pipe(map((data: unknown) => ({ data })));
  }
}

const sandbox = await useSandbox();
const closing = useClosing();
const lines = new OperatorLines();
afterEach(() => lines.clear());

const OLGA = { email: 'olga.one@example.com', tenant: 'default', expiresAt: expect.any(Number) };

async function expectMe(visitor: Visitor, url: string, me: object = OLGA): Promise<void> {
  const reply = await visitor.visit(url);
  expect([reply.status, bodyOf(reply)]).toEqual([200, me]);
}

const expectNobody = async (visitor: Visitor, url: string): Promise<void> =>
  expectError(await visitor.visit(url), 401, 'unauthenticated');

/** Logs a person in by this login route. Answers the reply of the callback. */
async function logIn(
  visitor: Visitor,
  login: string,
  person = 'olga.one@example.com',
  posted: VisitOptions = {},
): Promise<Reply> {
  sandbox.signInAs(person);
  const { origin } = new URL(login);
  const toCallback = await visitor.follow(login, (next) => next.origin === origin);
  if (toCallback.location !== undefined) {
    return visitor.visit(toCallback.location);
  }
  const { action, fields } = formFields(toCallback.text);
  return visitor.visit(action, { form: fields, ...posted });
}

function expectLedTo(reply: Reply, location: string, status = 303): void {
  expect([reply.status, reply.location]).toEqual([status, location]);
}

/** Expects that a login, `me` and a logout work below this address, and that the logout leads to this path. */
async function expectRoutes(url: string, home = '/'): Promise<void> {
  const { origin } = new URL(url);
  const visitor = new Visitor();
  await expectNobody(visitor, `${url}/me`);
  expectLedTo(await logIn(visitor, `${url}/login?returnTo=/mine?a=b`), `${origin}/mine?a=b`);
  await expectMe(visitor, `${url}/me`);
  expectLedTo(await visitor.visit(`${url}/logout`, { method: 'POST' }), `${origin}${home}`);
  await expectNobody(visitor, `${url}/me`);
}

const startRoutes = routesHosts(sandbox, lines, HomeController);
const start = async (given?: Given): Promise<Host> => closing(await startRoutes(given));

const versioned = (type: VersioningType.URI | VersioningType.HEADER) => (app: INestApplication) =>
  app.enableVersioning({ type, header: 'x-version', defaultVersion: '1' });
const prefixed = (app: INestApplication): INestApplication =>
  app.setGlobalPrefix('api', { exclude: ['health'] });
const excepted = (app: INestApplication): INestApplication =>
  app.setGlobalPrefix('api', { exclude: ['auth/callback'] });

describe.each(['express', 'fastify'] as const)('the routes of the module, on %s', (kind) => {
  it('log in, tell who is logged in and of which event, and log out', async () => {
    const { url } = await start({ kind });
    await expectRoutes(`${url}/auth`);
    const visitor = new Visitor();
    expectLedTo(await logIn(visitor, `${url}/auth/login?eventId=world-2026`), `${url}/`);
    await expectMe(visitor, `${url}/auth/me`, { ...OLGA, eventId: 'world-2026' });
  });

  it('are kept out of caches, and answer 404 to other methods', async () => {
    const { url } = await start({ kind });
    const visitor = new Visitor();
    await logIn(visitor, `${url}/auth/login`);
    for (const [path, cacheControl, otherMethod] of [
      ['login', 'private, no-store', 'POST'],
      ['callback', 'private, no-store', 'PUT'],
      ['me', 'private, no-store', 'POST'],
    ] as const) {
      const reply = await visitor.visit(`${url}/auth/${path}`);
      expect(reply.headers.get('cache-control')).toBe(cacheControl);
      expect((await visitor.visit(`${url}/auth/${path}`, { method: otherMethod })).status).toBe(404);
    }
    expect((await visitor.visit(`${url}/auth/logout`)).status).toBe(404);
  });

  it('show nothing to HEAD, which starts and finishes no login', async () => {
    const { url } = await start({ kind });
    const visitor = new Visitor();
    const head = async (target: string): Promise<unknown[]> => {
      const { status, text } = await visitor.visit(target, { method: 'HEAD' });
      return [status, text];
    };
    expect(await head(`${url}/auth/login`)).toEqual([204, '']);
    expect(await head(`${url}/auth/me`)).toEqual([401, '']);
    sandbox.signInAs('olga.one@example.com');
    const { location = '' } = await visitor.follow(`${url}/auth/login`, (next) => next.origin === url);
    expect(await head(location)).toEqual([204, '']);
    expect((await visitor.visit(location)).status).toBe(303);
  });

  it.each<[what: string, path: string, given: Given]>([
    ['hybrid logins', '/auth', { responseType: 'code id_token' }],
    ['a slash at both ends', '/auth', { routes: '/auth/' }],
    ['several segments', '/portal/my.auth', { routes: 'portal/my.auth' }],
    ['a global prefix', '/api/auth', { configure: prefixed }],
    [
      'versions in the path, which they have none of',
      '/api/auth',
      { configure: (app) => versioned(VersioningType.URI)(prefixed(app)) },
    ],
    ['versions in a header', '/auth', { configure: versioned(VersioningType.HEADER) }],
  ])('work with %s', async (_, path, given) => {
    const { url } = await start({ kind, callback: `${path}/callback`, ...given });
    await expectRoutes(`${url}${path}`, path.startsWith('/api') ? '/api' : '/');
    expect(lines.all.filter((line) => line.includes('redirectUri'))).toEqual([]);
  });

  it('serve two tenants by path, of which none accepts a user of the other', async () => {
    const tenantAt = (url: string, key: 'acme' | 'globex') =>
      sandbox.tenantOptions(key, { redirectUri: `${url}/${key}/auth/callback` });
    const { url } = await start({
      kind,
      routes: ':tenant/auth',
      options: (own) => ({
        tenant: undefined,
        tenants: { acme: tenantAt(own, 'acme'), globex: tenantAt(own, 'globex') },
        resolveTenant: ({ params }) => params?.['tenant'],
      }),
    });
    const visitor = new Visitor();
    expect((await logIn(visitor, `${url}/acme/auth/login`)).status).toBe(303);
    await expectMe(visitor, `${url}/acme/auth/me`, { ...OLGA, tenant: 'acme' });
    await expectNobody(visitor, `${url}/globex/auth/me`);
    expect((await visitor.visit(`${url}/none/auth/login`)).status).toBe(404);
  });

  it('answer the same under an interceptor that wraps every answer and keeps it for others', async () => {
    const { url } = await start({
      kind,
      providers: [{ provide: APP_INTERCEPTOR, useClass: WrappingCache }],
    });
    await expectRoutes(`${url}/auth`);
    const [olga, sam] = [new Visitor(), new Visitor()];
    await logIn(olga, `${url}/auth/login`);
    await expectMe(olga, `${url}/auth/me`);
    await logIn(sam, `${url}/auth/login`, 'sam.several@example.com');
    await expectMe(sam, `${url}/auth/me`, { ...OLGA, email: 'sam.several@example.com' });
  });
});

describe('the routes of the module', () => {
  it('have guards of the host, which inject what the imports of forRootAsync export', async () => {
    const guards = { login: SilentLoginGuard, callback: AuditedCallbackGuard, logout: LeadingLogoutGuard };
    const { url, app } = await start({
      module: (options) =>
        ExhibitorModule.forRootAsync({
          isGlobal: true,
          imports: [AuditModule],
          routes: { path: 'auth', guards },
          useFactory: () => {
            const { routes: _, isGlobal: __, ...rest } = options;
            return rest;
          },
        }),
    });
    const visitor = new Visitor();
    const started = await visitor.visit(`${url}/auth/login`);
    expect(new URL(started.location ?? '').searchParams.get('ui_locales')).toBe('da');
    const failed = await visitor.visit(`${url}/auth/callback?state=none&code=none`);
    expectLedTo(failed, `${url}/login-failed`, 302);
    expect(app.get(AuditLog, { strict: false }).lines).toEqual(['login_failed']);
    const foreign = await logOut(visitor, { url }, { 'sec-fetch-site': 'cross-site' });
    expectLedTo(foreign, `${url}/logout-failed`);
    const own = await logOut(visitor, { url });
    expectLedTo(own, `${url}/`);
    expect([foreign, own].map(({ headers }) => headers.get('x-basket'))).toEqual([null, 'empty']);
    // No handler ran after a guard that has answered.
    expect(lines.errors).toEqual([]);
  });

  it('receive back-channel logouts of no version where asked for, and not else', async () => {
    for (const [routes, status] of [
      [{ path: 'auth', backChannelLogout: true }, 400],
      ['auth', 404],
    ] as const) {
      const { url } = await start({ routes, configure: versioned(VersioningType.HEADER) });
      const form = { logout_token: 'none' };
      expect((await new Visitor().visit(`${url}/auth/backchannel-logout`, { form })).status).toBe(status);
    }
  });

  it("need no exception from Nest's cross-origin protection but for hybrid logins", async () => {
    const crossSite = { headers: { 'sec-fetch-site': 'cross-site', origin: 'https://login.example.com' } };
    for (const [exclude, status] of [
      [[], 403],
      [['auth/callback'], 303],
    ] as [string[], number][]) {
      const configure = (app: INestApplication): void => void app.enableCsrfProtection({ exclude });
      const { url } = await start({ responseType: 'code id_token', configure });
      const visitor = new Visitor();
      expect((await logIn(visitor, `${url}/auth/login`, undefined, crossSite)).status).toBe(status);
      const sameOrigin = { 'sec-fetch-site': 'same-origin', origin: url };
      expect((await logOut(visitor, { url }, sameOrigin)).status).toBe(303);
    }
  });

  it.each([
    ['ExhibitorIdentityGuard', ExhibitorIdentityGuard],
    ['ExhibitorGuard, which requires an event', ExhibitorGuard],
    ['a guard that leads to the login', SiteGuard],
  ])('are exempt from %s as APP_GUARD, and me answers itself', async (_, useClass) => {
    const { url } = await start({ providers: [{ provide: APP_GUARD, useClass }] });
    await expectRoutes(`${url}/auth`);
    // Also where a lookup for the event of the login would fail.
    const visitor = new Visitor();
    await logIn(visitor, `${url}/auth/login?eventId=world-2026`);
    sandbox.failNext('lookup', { kind: 'status', status: 403 }, Infinity);
    await expectMe(visitor, `${url}/auth/me`, { ...OLGA, eventId: 'world-2026' });
  });

  it('are in the document of @nestjs/swagger, unless its option include leaves their module out', async () => {
    @Module({ controllers: [HomeController] })
    class PagesModule {}
    const { app } = await start({ controllers: [], importedAfter: [PagesModule] });
    const pathsWith = (options = {}): string[] =>
      Object.keys(SwaggerModule.createDocument(app, new DocumentBuilder().build(), options).paths).toSorted();
    const routes = ['callback', 'choose', 'failed', 'login', 'logout', 'me'].map((name) => `/auth/${name}`);
    expect(pathsWith()).toEqual(['/', ...routes]);
    expect(pathsWith({ include: [PagesModule] })).toEqual(['/']);
  });
});

it('the routes of the module need no provider in a test of the application', async () => {
  const useFactory = (): never => {
    throw new Error('the options need an environment');
  };
  const routes = ':tenant/auth';
  @Module({ imports: [ExhibitorModule.forRootAsync({ isGlobal: true, routes, useFactory })] })
  class AppModule {}
  const builder = Test.createTestingModule({ imports: [AppModule] });
  const world = { identity: { email: 'ann@example.com' } };
  const module = await ExhibitorTestingModule.override(builder, world).compile();
  const app = module.createNestApplication();
  await app.listen(0, '127.0.0.1');
  const url = `${await app.getUrl()}/default`;
  const visitor = new Visitor();
  await expectMe(visitor, `${url}/auth/me`, { ...OLGA, email: 'ann@example.com' });
  const started = await visitor.visit(`${url}/auth/login?returnTo=/start`);
  const state = new URL(started.location ?? '').searchParams.get('state');
  const callback = `${url}/auth/callback?code=x&state=${state}`;
  expect((await visitor.visit(callback)).location).toBe(`${await app.getUrl()}/start`);
  // Nobody is led to the address of the router, whatever `redirectUri` is.
  module.get(ExhibitorTestingBackend).signOut();
  const led = await visitor.visit(`${url}/auth/me`, { headers: { accept: 'text/html' } });
  expect([led.status, new URL(led.location ?? '').pathname]).toEqual([302, '/default/auth/login']);
  await app.close();
});

it('a route of the host at the same address wins on Express, and ends the boot on Fastify', async () => {
  @Controller()
  class RootController {
    @Get(['auth/login', 'auth/*'])
    own(): string {
      return 'own';
    }
  }
  const options = { tenant: sandbox.tenantOptions('acme'), secrets: [COOKIE_SECRET], routes: 'auth' };
  @Module({ imports: [ExhibitorModule.forRoot(options)], controllers: [RootController] })
  class AppModule {}
  const startOn = (adapter: ExpressAdapter | FastifyAdapter): Promise<INestApplication> =>
    NestFactory.create(AppModule, adapter, { logger: false, abortOnError: false });
  const app = await startOn(new ExpressAdapter());
  await app.listen(0, '127.0.0.1');
  expect((await new Visitor().visit(`${await app.getUrl()}/auth/me`)).text).toBe('own');
  await app.close();
  await expect(startOn(new FastifyAdapter()).then((fastify) => fastify.init())).rejects.toThrow(
    "Method 'GET' already declared for route '/auth/login'",
  );
});

it('end the boot of a host whose requests carry bearer tokens only', async () => {
  const { login, ...service } = sandbox.tenantOptions('acme');
  const audience = { accessToken: 'portal' };
  const bearer = { issuer: login.issuer, keys: login.keys, audience, authorizedParties: ['spa'] };
  const options = { session: 'bearer' as const, tenant: { ...service, login: bearer } };
  const module = Test.createTestingModule({
    imports: [ExhibitorModule.forRoot({ isGlobal: true, routes: 'auth', ...options })],
  });
  await expect(module.compile()).rejects.toThrow(/routes.*'bearer'/);
});

/** Routers that are set up otherwise than by default. */
const LOOSE = {
  express: () => new ExpressAdapter(),
  fastify: () => new FastifyAdapter({ caseSensitive: false, ignoreTrailingSlash: true }),
};
const STRICT = {
  express: () => new ExpressAdapter(express().enable('case sensitive routing').enable('strict routing')),
  fastify: () => new FastifyAdapter(),
};

describe('a redirectUri with another path than the callback', () => {
  const tenantAt = (url: string, path: string) =>
    sandbox.tenantOptions('acme', { redirectUri: `${url}${path}` });

  const inModule = (path: string) => ({
    importedAfter: [RouterModule.register([{ path, module: ExhibitorModule }])],
  });
  const excludes = (method: RequestMethod) => (app: INestApplication) =>
    app.setGlobalPrefix('api', { exclude: [{ path: 'auth/callback', method }] });

  type Row = [what: string, path: string, served: string | undefined, given?: Given];
  /** Nest makes these paths, for each adapter alike. */
  const BY_NEST: readonly Row[] = [
    ['another path', '/callback', '/auth/callback'],
    ['without a global prefix', '/auth/callback', '/api/auth/callback', { configure: prefixed }],
    ['with a prefix that there is not', '/api/auth/callback', '/auth/callback'],
    ['with an excluded prefix', '/api/auth/callback', '/auth/callback', { configure: excepted }],
    ['an exception of the prefix', '/auth/callback', undefined, { configure: excepted }],
    ['one of the same method', '/auth/callback', undefined, { configure: excludes(RequestMethod.GET) }],
    [
      'one of another method',
      '/auth/callback',
      '/api/auth/callback',
      { configure: excludes(RequestMethod.POST) },
    ],
    ['URI versions', '/auth/callback', undefined, { configure: versioned(VersioningType.URI) }],
    [
      'a version that it has not',
      '/v1/auth/callback',
      '/auth/callback',
      { configure: versioned(VersioningType.URI) },
    ],
    ['RouterModule', '/portal/auth/callback', undefined, inModule('portal')],
    ['not of RouterModule', '/auth/callback', '/portal/auth/callback', inModule('/portal')],
    [
      'RouterModule and a prefix',
      '/api/portal/auth/callback',
      undefined,
      { ...inModule('portal'), configure: prefixed },
    ],
  ];
  const byRouter = (kind: 'express' | 'fastify'): readonly Row[] => [
    ['the path', '/auth/callback', undefined],
    [
      'that of a form',
      '/auth/callback',
      undefined,
      { configure: excludes(RequestMethod.POST), responseType: 'code id_token' },
    ],
    [
      'an escape',
      '/%C3%A4/auth/callback',
      kind === 'express' ? '/ä/auth/callback' : undefined,
      { configure: (app) => app.setGlobalPrefix('ä') },
    ],
    [
      'a prefix that is encoded',
      '/%C3%A4/auth/callback',
      kind === 'express' ? undefined : '/%25C3%25A4/auth/callback',
      { configure: (app) => app.setGlobalPrefix('%C3%A4') },
    ],
    ['a parameter', '/portals/acme/auth/callback', undefined, inModule('portals/:portal')],
    ['a part of a parameter', '/p-acme/auth/callback', undefined, inModule('p-:portal')],
    ['a dot, which is no pattern', '/aXb/auth/callback', '/a.b/auth/callback', inModule('a.b')],
    ['letter case', '/Auth/Callback', kind === 'express' ? undefined : '/auth/callback'],
    ['a trailing slash', '/auth/callback/', kind === 'express' ? undefined : '/auth/callback'],
    ['letter case and slash of a loose router', '/AUTH/callback/', undefined, { adapter: LOOSE[kind] }],
    ['letter case of a strict router', '/Auth/callback', '/auth/callback', { adapter: STRICT[kind] }],
    ['a slash of a strict router', '/auth/callback/', '/auth/callback', { adapter: STRICT[kind] }],
  ];

  describe.each(['express', 'fastify'] as const)(
    'is warned about where %s answers 404, and else not:',
    (kind) => {
      it.each([...(kind === 'express' ? BY_NEST : []), ...byRouter(kind)])(
        '%s: %s',
        async (_, path, served, given = {}) => {
          const { url } = await start({ kind, callback: path, ...given });
          const form = given.responseType === undefined ? undefined : { state: 'none' };
          const reply = await new Visitor().visit(`${url}${path}`, { form });
          expect([reply.status, lines.all.filter((line) => line.includes('its path is'))]).toEqual(
            served === undefined
              ? [401, []]
              : [
                  404,
                  [`tenant.login.redirectUri: its path is ${path}, but that of the callback is ${served}`],
                ],
          );
        },
      );
    },
  );

  it('is warned about once, for the first tenant that has one', async () => {
    await start({
      routes: ':tenant/auth',
      options: (url) => ({
        tenant: undefined,
        tenants: {
          a: tenantAt(url, '/a/auth/callback'),
          b: tenantAt(url, '/b/back'),
          c: tenantAt(url, '/c/back'),
        },
        resolveTenant: () => 'a',
      }),
    });
    expect(lines.all).toEqual([
      'tenants.b.login.redirectUri: its path is /b/back, but that of the callback is /:tenant/auth/callback',
    ]);
  });

  it.each<[what: string, given: Given]>([
    [
      'behind a proxy, with a guard that reads another path',
      { callback: '/portal/auth/callback', routes: { path: 'auth', guards: { callback: ProxiedGuard } } },
    ],
    [
      'of a source',
      {
        options: (url) => ({
          tenant: undefined,
          tenants: { find: () => tenantAt(url, '/back') },
          allowedOrigins: () => true,
        }),
      },
    ],
  ])('is not warned about %s', async (_, given) => {
    await start(given);
    expect(lines.all).toEqual([]);
  });

  it('is not warned about without HTTP', async () => {
    const tenant = tenantAt('http://127.0.0.1', '/back');
    const module = ExhibitorModule.forRoot({ tenant, secrets: [COOKIE_SECRET], routes: 'auth' });
    @Module({ imports: [module] })
    class AppModule {}
    closing(await NestFactory.createApplicationContext(AppModule, { logger: lines }));
    expect(lines.all).toEqual([]);
  });
});

it('routes that are no path are refused', () => {
  const paths = [
    '',
    '/',
    '//',
    'auth//',
    '//auth',
    'a//b',
    'a/..',
    ':',
    'auth?x',
    'au th',
    '*auth',
    '../auth',
    7,
  ];
  for (const path of [...paths, undefined]) {
    const routes = { path } as LoginRoutes;
    const expected = "must be a path such as 'auth' or ':tenant/auth'";
    expect(() => ExhibitorModule.forRootAsync({ routes, useFactory: () => ({}) as never })).toThrow(
      expect.objectContaining({ problems: [{ path: 'routes.path', expected }] }),
    );
  }
});
