import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Inject,
  Injectable,
  Module,
  VersioningType,
  type CallHandler,
  type CanActivate,
  type ExecutionContext,
  type INestApplication,
  type NestInterceptor,
  type Type,
} from '@nestjs/common';
import { APP_GUARD, APP_INTERCEPTOR, NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { DocumentBuilder, SwaggerModule } from '@nestjs/swagger';
import { Test } from '@nestjs/testing';
import { map, of, tap, type Observable } from 'rxjs';
import {
  AllowAnonymous,
  ConfigurationError,
  ExhibitorCallbackGuard,
  ExhibitorGuard,
  ExhibitorGuardServices,
  ExhibitorIdentityGuard,
  ExhibitorLoginGuard,
  ExhibitorLogoutGuard,
  ExhibitorModule,
  type ExhibitorError,
  type ExhibitorModuleOptions,
  type HttpContext,
  type LoginParameters,
  type LoginRoutes,
} from '../../lib/index.js';
import { ExhibitorTestingModule, type ExhibitorSandbox } from '../../lib/testing/index.js';
import { COOKIE_SECRET, startHost, type Host, type HostOptions } from '../support/host.js';
import { startSandbox } from '../support/sandbox.js';
import { loadSnippets } from '../support/snippets.js';
import { formFields, Visitor, type Reply, type VisitOptions } from '../support/visitor.js';

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

  protected override onLoginFailed(error: ExhibitorError, context: ExecutionContext): void {
    this.audit.lines.push(error.code);
    this.redirect(context, '/login-failed');
  }
}

@Injectable()
class AuditedLogoutGuard extends ExhibitorLogoutGuard {
  constructor(
    @Inject(ExhibitorGuardServices) services: ExhibitorGuardServices,
    @Inject(AuditLog) private readonly audit: AuditLog,
  ) {
    super(services);
  }

  override canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    this.audit.lines.push('logout');
    return super.canActivate(context);
  }
}

@Injectable()
class SiteGuard extends ExhibitorIdentityGuard {
  protected override onNoIdentity(http: HttpContext): Promise<never> {
    return this.redirectToLogin(http, '/auth/login');
  }
}

/** Answers by address alone, as the global `CacheInterceptor` of `@nestjs/cache-manager` does. */
@Injectable()
class CarelessCache implements NestInterceptor {
  readonly #answers = new Map<string, unknown>();

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const { url } = context.switchToHttp().getRequest<{ url: string }>();
    const known = this.#answers.get(url);
    return known === undefined
      ? next.handle().pipe(tap((answer) => this.#answers.set(url, answer)))
      : of(known);
  }
}

/** Wraps every answer, as many hosts do. */
@Injectable()
class Envelope implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler): Observable<object> {
    return next.handle().pipe(map((data: unknown) => ({ data })));
  }
}

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());

interface Given extends Partial<Omit<HostOptions, 'options'>> {
  routes?: string | LoginRoutes;
  /** Path of `redirectUri`. */
  callback?: string;
  responseType?: 'code' | 'code id_token';
  options?: (url: string) => Partial<ExhibitorModuleOptions>;
}

describe.each(['express', 'fastify'] as const)('the routes of the module, on %s', (kind) => {
  let host: Host | undefined;
  afterEach(async () => {
    await host?.close();
    host = undefined;
  });

  async function start(given: Given = {}): Promise<string> {
    const { routes = 'auth', callback = '/auth/callback', responseType = 'code', options, ...others } = given;
    host = await startHost({
      kind,
      controllers: [HomeController],
      options: (_, url) => ({
        tenant: sandbox.tenantOptions('acme', { redirectUri: `${url}${callback}`, responseType }),
        secrets: [COOKIE_SECRET],
        isGlobal: true,
        routes,
        ...(options?.(url) as object),
      }),
      ...others,
    });
    return host.url;
  }

  /** Logs a person in, and answers the reply of the callback. */
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

  async function jsonAt(visitor: Visitor, url: string): Promise<[number, unknown]> {
    const { status, text } = await visitor.visit(url);
    return [status, JSON.parse(text)];
  }

  const OLGA = { email: 'olga.one@example.com', tenant: 'default', expiresAt: expect.any(Number) };
  const NOBODY = [401, expect.objectContaining({ code: 'unauthenticated' })];

  describe('by their default', () => {
    let url: string;
    let usual: Host | undefined;
    beforeAll(async () => {
      url = await start();
      [usual, host] = [host, undefined];
    });
    afterAll(() => usual?.close());

    it('log in, tell who is logged in, and log out', async () => {
      const visitor = new Visitor();
      expect(await jsonAt(visitor, `${url}/auth/me`)).toEqual(NOBODY);
      const reply = await logIn(visitor, `${url}/auth/login`);
      expect([reply.status, reply.location]).toEqual([303, `${url}/`]);
      expect(await jsonAt(visitor, `${url}/auth/me`)).toEqual([200, OLGA]);
      const out = await visitor.visit(`${url}/auth/logout`, { method: 'POST' });
      expect([out.status, out.location]).toEqual([303, `${url}/`]);
      expect(await jsonAt(visitor, `${url}/auth/me`)).toEqual(NOBODY);
    });

    it('lead to returnTo, and tell the event of the login', async () => {
      const visitor = new Visitor();
      const reply = await logIn(visitor, `${url}/auth/login?eventId=world-2026&returnTo=/mine?a=b`);
      expect([reply.status, reply.location]).toEqual([303, `${url}/mine?a=b`]);
      expect(await jsonAt(visitor, `${url}/auth/me`)).toEqual([200, { ...OLGA, eventId: 'world-2026' }]);
    });

    it('are kept out of caches', async () => {
      const visitor = new Visitor();
      const cacheControl = async (path: string): Promise<string | null> =>
        (await visitor.visit(`${url}${path}`)).headers.get('cache-control');
      expect(await cacheControl('/auth/me')).toBe('private, no-store');
      expect(await cacheControl('/auth/login')).toBe('no-store');
      expect(await cacheControl('/auth/callback')).toBe('no-store');
      const callback = await logIn(visitor, `${url}/auth/login`);
      expect(callback.headers.get('cache-control')).toBe('no-store');
      expect(await cacheControl('/auth/me')).toBe('private, no-store');
    });

    it('answer 404 to other methods', async () => {
      const visitor = new Visitor();
      const statusOf = async (method: string, path: string): Promise<number> =>
        (await visitor.visit(`${url}/auth/${path}`, { method })).status;
      expect(await statusOf('POST', 'login')).toBe(404);
      expect(await statusOf('GET', 'logout')).toBe(404);
      expect(await statusOf('PUT', 'callback')).toBe(404);
      expect(await statusOf('POST', 'me')).toBe(404);
    });

    it('show nothing to HEAD, which starts a login as GET does, and finishes none', async () => {
      const visitor = new Visitor();
      const head = (target: string): Promise<Reply> => visitor.visit(target, { method: 'HEAD' });
      const started = await head(`${url}/auth/login`);
      expect([started.status, started.text]).toEqual([302, '']);
      const me = await head(`${url}/auth/me`);
      expect([me.status, me.text]).toEqual([401, '']);
      sandbox.signInAs('olga.one@example.com');
      const { location = '' } = await visitor.follow(`${url}/auth/login`, (next) => next.origin === url);
      expect((await head(location)).status).toBe(401);
      expect((await visitor.visit(location)).status).toBe(303);
    });
  });

  it.each([
    ['a slash at both ends', '/auth/', '/auth', undefined],
    ['several segments', 'portal/my.auth', '/portal/my.auth', undefined],
    ['a global prefix', 'auth', '/api/auth', (app: INestApplication) => app.setGlobalPrefix('api')],
    [
      'versions in the path, which they have none of',
      'auth',
      '/api/auth',
      (app: INestApplication) =>
        app.setGlobalPrefix('api').enableVersioning({ type: VersioningType.URI, defaultVersion: '1' }),
    ],
    [
      'versions in a header',
      'auth',
      '/auth',
      (app: INestApplication) =>
        app.enableVersioning({ type: VersioningType.HEADER, header: 'x-version', defaultVersion: '1' }),
    ],
  ])('work with %s', async (_, routes, path, configure) => {
    const url = await start({ routes, callback: `${path}/callback`, configure });
    const visitor = new Visitor();
    expect((await logIn(visitor, `${url}${path}/login`)).status).toBe(303);
    expect(await jsonAt(visitor, `${url}${path}/me`)).toEqual([200, OLGA]);
  });

  it('serve two tenants by path, of which none accepts a user of the other', async () => {
    const url = await start({
      routes: ':tenant/auth',
      options: (own) => ({
        tenant: undefined,
        tenants: {
          acme: sandbox.tenantOptions('acme', { redirectUri: `${own}/acme/auth/callback` }),
          globex: sandbox.tenantOptions('globex', { redirectUri: `${own}/globex/auth/callback` }),
        },
        resolveTenant: ({ params }) => params?.['tenant'],
      }),
    });
    const visitor = new Visitor();
    expect((await logIn(visitor, `${url}/acme/auth/login`)).status).toBe(303);
    expect(await jsonAt(visitor, `${url}/acme/auth/me`)).toEqual([200, { ...OLGA, tenant: 'acme' }]);
    expect(await jsonAt(visitor, `${url}/globex/auth/me`)).toEqual(NOBODY);
    expect((await visitor.visit(`${url}/none/auth/login`)).status).toBe(404);
  });

  it('have guards of the host, which inject what the imports of forRootAsync export', async () => {
    const guards = {
      login: SilentLoginGuard,
      callback: AuditedCallbackGuard,
      logout: AuditedLogoutGuard,
    };
    const url = await start({
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
    expect([failed.status, failed.location]).toEqual([303, `${url}/login-failed`]);
    expect((await logIn(visitor, `${url}/auth/login`)).location).toBe(`${url}/`);
    expect((await visitor.visit(`${url}/auth/logout`, { method: 'POST' })).status).toBe(303);
    expect(host?.app.get(AuditLog, { strict: false }).lines).toEqual(['login_failed', 'logout']);
  });

  it('receive back-channel logouts where asked for, and not else', async () => {
    const form = { logout_token: 'none' };
    const url = await start({ routes: { path: 'auth', backChannelLogout: true } });
    expect((await new Visitor().visit(`${url}/auth/backchannel-logout`, { form })).status).toBe(400);
    await host?.close();
    const without = await start();
    expect((await new Visitor().visit(`${without}/auth/backchannel-logout`, { form })).status).toBe(404);
  });

  it("need no exception from Nest's cross-origin protection but for hybrid logins", async () => {
    const crossSite = { headers: { 'sec-fetch-site': 'cross-site', origin: 'https://login.example.com' } };
    const protectedBy = (exclude: string[]) => (app: INestApplication) =>
      void app.enableCsrfProtection({ exclude });
    const refusing = await start({ responseType: 'code id_token', configure: protectedBy([]) });
    expect((await logIn(new Visitor(), `${refusing}/auth/login`, undefined, crossSite)).status).toBe(403);
    await host?.close();
    const url = await start({ responseType: 'code id_token', configure: protectedBy(['auth/callback']) });
    const visitor = new Visitor();
    const reply = await logIn(visitor, `${url}/auth/login?returnTo=/mine`, undefined, crossSite);
    expect([reply.status, reply.location]).toEqual([303, `${url}/mine`]);
    expect(await jsonAt(visitor, `${url}/auth/me`)).toEqual([200, OLGA]);
    const headers = { 'sec-fetch-site': 'same-origin', origin: url };
    expect((await visitor.visit(`${url}/auth/logout`, { method: 'POST', headers })).status).toBe(303);
  });

  it('answer the same under an interceptor that wraps every answer, and one that caches them', async () => {
    const url = await start({
      providers: [
        { provide: APP_INTERCEPTOR, useClass: Envelope },
        { provide: APP_INTERCEPTOR, useClass: CarelessCache },
      ],
    });
    const visitor = new Visitor();
    const reply = await logIn(visitor, `${url}/auth/login?returnTo=/mine`);
    expect([reply.status, reply.location]).toEqual([303, `${url}/mine`]);
    expect(await jsonAt(visitor, `${url}/auth/me`)).toEqual([200, OLGA]);
    const other = new Visitor();
    await logIn(other, `${url}/auth/login`, 'sam.several@example.com');
    expect(await jsonAt(other, `${url}/auth/me`)).toEqual([
      200,
      { ...OLGA, email: 'sam.several@example.com' },
    ]);
    const out = await visitor.visit(`${url}/auth/logout`, { method: 'POST' });
    expect([out.status, out.location]).toEqual([303, `${url}/`]);
  });

  if (kind === 'fastify') {
    return;
  }

  it.each([
    ['ExhibitorIdentityGuard', ExhibitorIdentityGuard],
    ['ExhibitorGuard, which requires an event', ExhibitorGuard],
    ['a guard that leads to the login', SiteGuard],
  ])('are exempt from %s as APP_GUARD, and me answers 401 itself', async (_, useClass) => {
    const url = await start({ providers: [{ provide: APP_GUARD, useClass }] });
    const visitor = new Visitor();
    const nobody = await visitor.visit(`${url}/auth/me`, { headers: { accept: 'text/html' } });
    expect([nobody.status, JSON.parse(nobody.text)]).toEqual(NOBODY);
    expect((await logIn(visitor, `${url}/auth/login`)).status).toBe(303);
    expect(await jsonAt(visitor, `${url}/auth/me`)).toEqual([200, OLGA]);
    expect((await visitor.visit(`${url}/auth/logout`, { method: 'POST' })).status).toBe(303);
  });

  it('pass the own global guard of docs/login.md, which closes the other routes', async () => {
    const { ApiKeyGuard } = await loadSnippets<{ ApiKeyGuard: Type<CanActivate> }>(
      'login.md',
      'own global guard',
    );
    const url = await start({ providers: [{ provide: APP_GUARD, useClass: ApiKeyGuard }] });
    const visitor = new Visitor();
    expect((await logIn(visitor, `${url}/auth/login`)).status).toBe(303);
    expect(await jsonAt(visitor, `${url}/auth/me`)).toEqual([200, OLGA]);
    const keyed = (key: string) => visitor.visit(`${url}/`, { headers: { 'x-api-key': key } });
    expect((await keyed('')).status).toBe(403);
    process.env['API_KEY'] = 'the-key';
    expect((await keyed('another')).status).toBe(403);
    expect((await keyed('the-key')).status).toBe(200);
    delete process.env['API_KEY'];
    expect((await visitor.visit(`${url}/auth/logout`, { method: 'POST' })).status).toBe(303);
  });

  it('finish no login where requests carry bearer tokens alone', async () => {
    const url = await start({
      options: (own) => {
        const tenant = sandbox.tenantOptions('acme', { redirectUri: `${own}/auth/callback` });
        const audience = { accessToken: 'portal-api', idToken: tenant.login.clientId };
        const login = { ...tenant.login, audience, authorizedParties: ['portal-app'] };
        return { tenant: { ...tenant, login }, session: 'bearer' };
      },
    });
    const { status, text } = await logIn(new Visitor(), `${url}/auth/login`);
    expect([status, JSON.parse(text)]).toEqual([
      500,
      expect.objectContaining({ code: 'configuration_invalid' }),
    ]);
  });

  it('are in the document of @nestjs/swagger, unless its option include leaves their module out', async () => {
    @Module({ controllers: [HomeController] })
    class PagesModule {}
    await start({ controllers: [], importedAfter: [PagesModule] });
    const app = host?.app as INestApplication;
    const config = new DocumentBuilder().build();
    expect(Object.keys(SwaggerModule.createDocument(app, config).paths).toSorted()).toEqual([
      '/',
      '/auth/callback',
      '/auth/login',
      '/auth/logout',
      '/auth/me',
    ]);
    const hidden = SwaggerModule.createDocument(app, config, { include: [PagesModule] });
    expect(Object.keys(hidden.paths)).toEqual(['/']);
  });
});

it('the routes of the module need no provider in a test of the application', async () => {
  const useFactory = (): never => {
    throw new Error('options are not read in tests');
  };
  @Module({ imports: [ExhibitorModule.forRootAsync({ isGlobal: true, routes: 'auth', useFactory })] })
  class AppModule {}
  const builder = Test.createTestingModule({ imports: [AppModule] });
  const world = { identity: { email: 'ann@example.com' } };
  const module = await ExhibitorTestingModule.override(builder, world).compile();
  const app = module.createNestApplication();
  await app.listen(0, '127.0.0.1');
  const url = await app.getUrl();
  const visitor = new Visitor();
  const me = { email: 'ann@example.com', tenant: 'default', expiresAt: expect.any(Number) };
  expect(JSON.parse((await visitor.visit(`${url}/auth/me`)).text)).toEqual(me);
  expect((await visitor.visit(`${url}/auth/login`)).status).toBe(302);
  expect((await visitor.visit(`${url}/auth/callback`)).location).toBe(`${url}/`);
  await app.close();
});

describe('a route of the host at the same address', () => {
  @Controller()
  class RootController {
    @Get(['auth/login', 'auth/*'])
    own(): string {
      return 'own';
    }
  }
  const start = (adapter: ExpressAdapter | FastifyAdapter): Promise<INestApplication> => {
    const options = { tenant: sandbox.tenantOptions('acme'), secrets: [COOKIE_SECRET], routes: 'auth' };
    @Module({ imports: [ExhibitorModule.forRoot(options)], controllers: [RootController] })
    class AppModule {}
    return NestFactory.create(AppModule, adapter, { logger: false, abortOnError: false });
  };

  it('wins on Express where it is registered first', async () => {
    const app = await start(new ExpressAdapter());
    await app.listen(0, '127.0.0.1');
    expect((await new Visitor().visit(`${await app.getUrl()}/auth/me`)).text).toBe('own');
    await app.close();
  });

  it('ends the boot on Fastify', async () => {
    await expect(start(new FastifyAdapter()).then((app) => app.init())).rejects.toThrow(
      "Method 'GET' already declared for route '/auth/login'",
    );
  });
});

describe('routes that are wrong', () => {
  const problem = (routes: unknown): unknown => {
    try {
      ExhibitorModule.forRootAsync({ routes: routes as string, useFactory: () => ({}) as never });
    } catch (error) {
      return error instanceof ConfigurationError ? error.problems : error;
    }
    return 'accepted';
  };

  const PATH = "must be a path such as 'auth' or ':tenant/auth'";

  it.each(['/', '//', 'auth//', '//auth', 'a//b', 'auth?x', 'au th', '*auth', '../auth', 'a/..', ':'])(
    '%j is refused with what is expected',
    (path) => {
      const expected = [{ path: 'routes.path', expected: PATH }];
      expect(problem(path)).toEqual(expected);
      expect(problem({ path })).toEqual(expected);
    },
  );

  it.each([
    ['', 'routes.path', 'must not be empty'],
    [{}, 'routes.path', 'is required'],
    [7, 'routes', expect.any(String)],
    [null, 'routes', expect.any(String)],
    [{ path: 7 }, 'routes.path', 'must be a string'],
    [{ path: 'auth', backChannelLogout: 'false' }, 'routes.backChannelLogout', 'must be true or false'],
    // What these were to close would stay open.
    [{ path: 'auth', backchannelLogout: true }, 'routes.backchannelLogout', 'is not an option'],
    [{ path: 'auth', guards: { logIn: ExhibitorLoginGuard } }, 'routes.guards.logIn', 'is not an option'],
  ])('%j are refused by the path of the option', (routes, path, expected) => {
    expect(problem(routes)).toEqual([{ path, expected }]);
  });

  it('registers none without the option, and with undefined and false', () => {
    for (const routes of [undefined, false] as const) {
      expect(ExhibitorModule.forRootAsync({ routes, useFactory: () => ({}) as never }).controllers).toEqual(
        [],
      );
    }
    expect(ExhibitorModule.forRootAsync({ useFactory: () => ({}) as never }).controllers).toEqual([]);
  });
});
