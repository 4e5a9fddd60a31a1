import { afterEach, describe, expect, it } from '@jest/globals';
import {
  All,
  Controller,
  Get,
  Injectable,
  Module,
  RequestMethod,
  Scope,
  UseGuards,
  Version,
  VERSION_NEUTRAL,
  VersioningType,
  type DynamicModule,
  type INestApplication,
  type Type,
} from '@nestjs/common';
import { NestFactory, RouterModule } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import {
  ExhibitorCallbackGuard,
  ExhibitorIdentityGuard,
  ExhibitorModule,
  type LoginOptions,
  type TenantOptions,
} from '../../lib/index.js';
import { ExhibitorTestingModule } from '../../lib/testing/index.js';
import { COOKIE_SECRET, createApp } from '../support/host.js';
import { useClosing } from '../support/lifetimes.js';
import { OperatorLines } from '../support/operator-lines.js';

const lines = new OperatorLines();
const closing = useClosing();
afterEach(() => lines.clear());

/** A tenant with a callback at this path. */
function tenantAt(path: string, login: Partial<LoginOptions> = {}): TenantOptions {
  return {
    tenantId: 'tenant',
    baseUrl: 'https://api.example.com',
    authUrl: 'https://login.example.com',
    clientId: 'api',
    clientSecret: 'the secret of the API client',
    login: {
      clientId: 'web',
      redirectUri: `https://host.example.com${path}`,
      issuer: 'https://login.example.com',
      keys: 'https://login.example.com/keys',
      ...login,
    },
  };
}

const secrets = [COOKIE_SECRET];
const moduleAt = (path: string, login?: Partial<LoginOptions>): DynamicModule =>
  ExhibitorModule.forRoot({ tenant: tenantAt(path, login), secrets, isGlobal: true });

/** A tenant for each of these paths. */
const moduleAtAll = (paths: readonly string[]): DynamicModule =>
  ExhibitorModule.forRoot({
    tenants: Object.fromEntries(paths.map((path) => [path, tenantAt(path)])),
    secrets,
  });

const missing = (path: string, found: string, tenant = 'tenant'): string[] => [
  `${tenant}.login.redirectUri: no route with ExhibitorCallbackGuard has the path ${path}. Callbacks found: ${found}`,
];
const NONE = "none; routes: 'auth' registers one, routes: false ends this check";

/** Which routes there are is known by Nest, whatever the adapter. */
describe('the callback of redirectUri', () => {
  /** The warnings of a host, once it listens. */
  async function warningsOf(
    imports: (DynamicModule | Type)[],
    controllers: Type[] = [],
    configure?: (app: INestApplication) => unknown,
    kind: 'express' | 'fastify' = 'express',
  ): Promise<string[]> {
    @Module({ imports, controllers })
    class AppModule {}
    const app = closing(await createApp(kind, AppModule));
    app.useLogger(lines);
    await configure?.(app);
    await app.listen(0, '127.0.0.1');
    return lines.warnings.filter((line) => line.includes('redirectUri'));
  }

  function controllerWith(Guard: Type<ExhibitorCallbackGuard>): Type {
    @Controller('auth')
    class AuthController {
      @Get('callback')
      @UseGuards(Guard)
      callback(): void {}

      @Get('profile')
      @UseGuards(ExhibitorIdentityGuard)
      profile(): void {}
    }
    return AuthController;
  }
  const AuthController = controllerWith(ExhibitorCallbackGuard);

  @Controller()
  class UnguardedController {
    @Get('auth/callback')
    @UseGuards(ExhibitorIdentityGuard)
    callback(): void {}
  }

  it.each(['express', 'fastify'] as const)(
    'is warned about where there is none, or another one, with the callbacks that there are: on %s',
    async (kind) => {
      const none = await warningsOf([moduleAt('/auth/callback')], [UnguardedController], undefined, kind);
      expect(none).toEqual(missing('/auth/callback', NONE));
      lines.clear();
      const hosts = [AuthController, AuthController];
      const other = await warningsOf([moduleAt('/callback')], hosts, undefined, kind);
      expect(other).toEqual(missing('/callback', '/auth/callback'));
    },
  );

  it('is warned about under a global prefix that it lacks', async () => {
    const routes = ExhibitorModule.forRoot({ tenant: tenantAt('/auth/callback'), secrets, routes: 'auth' });
    expect(await warningsOf([routes], [], (app) => app.setGlobalPrefix('api'))).toEqual(
      missing('/auth/callback', '/api/auth/callback'),
    );
  });

  it('is warned about once, for the first tenant that has none', async () => {
    const module = ExhibitorModule.forRoot({
      tenants: {
        acme: tenantAt('/acme/auth/callback'),
        globex: tenantAt('/globex/callback'),
        initech: tenantAt('/initech/callback'),
      },
      secrets,
      resolveTenant: () => 'acme',
      routes: ':tenant/auth',
    });
    expect(await warningsOf([module])).toEqual(
      missing('/globex/callback', '/:tenant/auth/callback', 'tenants.globex'),
    );
  });

  describe('is found', () => {
    it('at a route of the host, without regard to case and the last slash', async () => {
      @Controller(['', 'market'])
      @UseGuards(ExhibitorCallbackGuard)
      class ManyController {
        @All(['Callback', 'auth/callback', ':from-:to/callback'])
        callback(): void {}
      }
      const paths = [
        '/callback',
        '/auth/callback/',
        '/MARKET/callback',
        '/market/auth/callback',
        '/a-b/callback',
      ];
      expect(await warningsOf([moduleAtAll(paths)], [ManyController])).toEqual([]);
      expect(await warningsOf([moduleAt('/market')], [ManyController])).toHaveLength(1);
    });

    it('under the global prefix, and where it is excluded from it', async () => {
      const prefixed = (app: INestApplication): unknown => app.setGlobalPrefix('api');
      expect(await warningsOf([moduleAt('/api/auth/callback')], [AuthController], prefixed)).toEqual([]);
      const excluding = (app: INestApplication): unknown =>
        app.setGlobalPrefix('api', { exclude: [{ path: 'auth/callback', method: RequestMethod.GET }] });
      expect(await warningsOf([moduleAt('/auth/callback')], [AuthController], excluding)).toEqual([]);
    });

    it('under a version of the path, and without one', async () => {
      @Controller({ path: 'auth', version: ['2', VERSION_NEUTRAL] })
      class VersionedController {
        @Get('callback')
        @UseGuards(ExhibitorCallbackGuard)
        callback(): void {}

        @Get('callback')
        @Version('4')
        @UseGuards(ExhibitorCallbackGuard)
        newCallback(): void {}
      }
      const versioned = (app: INestApplication): unknown =>
        app.setGlobalPrefix('api').enableVersioning({ type: VersioningType.URI, defaultVersion: '1' });
      const found = moduleAtAll(['/api/v2/auth/callback', '/api/auth/callback', '/api/v4/auth/callback']);
      expect(await warningsOf([found], [VersionedController], versioned)).toEqual([]);
      expect(await warningsOf([moduleAt('/api/v1/auth/callback')], [AuthController], versioned)).toEqual([]);
      expect(await warningsOf([moduleAt('/api/v3/auth/callback')], [VersionedController], versioned)).toEqual(
        missing('/api/v3/auth/callback', '/api/v2/auth/callback, /api/auth/callback, /api/v4/auth/callback'),
      );
    });

    it('below a path of RouterModule', async () => {
      @Module({ controllers: [AuthController] })
      class AuthModule {}
      const below = RouterModule.register([{ path: 'portal', module: AuthModule }]);
      expect(await warningsOf([moduleAt('/portal/auth/callback'), AuthModule, below])).toEqual([]);
      expect(await warningsOf([moduleAt('/auth/callback'), AuthModule, below])).toHaveLength(1);
    });

    it.each([
      ['any/*path', '/any/auth/callback'],
      ['wähler', '/w%C3%A4hler'],
      ['100', '/100%'],
    ])('in doubt, at a path that only the router can read: %s, %s', async (own, path) => {
      @Controller()
      class WildController {
        @Get(own)
        @UseGuards(ExhibitorCallbackGuard)
        callback(): void {}
      }
      expect(await warningsOf([moduleAt(path)], [WildController])).toEqual([]);
    });

    it('behind a proxy that changes the path, by a guard that reads another', async () => {
      @Injectable()
      class ProxiedGuard extends ExhibitorCallbackGuard {
        protected override getCallbackPath(): string {
          return '/portal/auth/callback';
        }
      }
      const own = [controllerWith(ProxiedGuard)];
      expect(await warningsOf([moduleAt('/portal/auth/callback')], own)).toEqual([]);
      const routes = { path: 'auth', guards: { callback: ProxiedGuard } };
      const tenant = tenantAt('/portal/auth/callback');
      expect(await warningsOf([ExhibitorModule.forRoot({ tenant, secrets, routes })])).toEqual([]);
    });

    it('at another subclass, which is no proxy', async () => {
      @Injectable({ scope: Scope.REQUEST })
      class OwnGuard extends ExhibitorCallbackGuard {}
      const own = [controllerWith(OwnGuard)];
      expect(await warningsOf([moduleAt('/auth/callback')], own)).toEqual([]);
      expect(await warningsOf([moduleAt('/callback')], own)).toHaveLength(1);
    });
  });

  it('is not looked for without a login, with bearer tokens only, in a source, and with routes: false', async () => {
    const { login: _, ...plain } = tenantAt('');
    const bearer = tenantAt('/auth/callback', {
      audience: { accessToken: 'api' },
      authorizedParties: ['app'],
    } as Partial<LoginOptions>);
    const find = (): TenantOptions => tenantAt('/auth/callback');
    for (const options of [
      { tenant: plain },
      { tenant: bearer, session: 'bearer' },
      { tenants: { find }, allowedOrigins: () => true },
      { tenant: tenantAt('/auth/callback'), routes: false },
    ] as const) {
      expect(await warningsOf([ExhibitorModule.forRoot({ ...options, secrets })])).toEqual([]);
    }
    expect(await warningsOf([ExhibitorTestingModule.forRoot()])).toEqual([]);
  });
});

describe('an application without HTTP', () => {
  @Module({ imports: [moduleAt('/auth/callback')] })
  class AppModule {}

  it('is not warned: a context, a module of a test, and an e2e test that overrides the module', async () => {
    closing(await NestFactory.createApplicationContext(AppModule, { logger: lines }));
    const testing = await Test.createTestingModule({ imports: [AppModule] })
      .setLogger(lines)
      .compile();
    closing(await testing.init());
    const builder = ExhibitorTestingModule.override(Test.createTestingModule({ imports: [AppModule] }));
    const app = closing((await builder.compile()).createNestApplication({ logger: lines }));
    await app.listen(0, '127.0.0.1');
    expect(lines.all).toEqual([]);
  });
});
