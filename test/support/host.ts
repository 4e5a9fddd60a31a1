import fastifyCookie from '@fastify/cookie';
import { Authenticator } from '@fastify/passport';
import fastifySession from '@fastify/session';
import { Module, type DynamicModule, type INestApplication, type Provider, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter, type NestExpressApplication } from '@nestjs/platform-express';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import session from 'express-session';
import passport from 'passport';
import { ExhibitorModule, type ExhibitorModuleOptions, type LoginRoutes } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/development/testing/index.js';
import { BoothController } from './booth.controller.js';
import { freePort } from './server.js';

export type HostKind = 'express' | 'fastify' | 'express + express-session' | 'fastify + @fastify/session';

export const HOST_KINDS: readonly HostKind[] = [
  'express',
  'fastify',
  'express + express-session',
  'fastify + @fastify/session',
];

/** A host under test. */
export interface Host {
  app: INestApplication;
  url: string;
  callback: string;
  close(): Promise<void>;
}

export const COOKIE_SECRET = 'a cookie secret of the tests, 32+ characters';

type ModuleOptions = ExhibitorModuleOptions & {
  bindFilter?: boolean;
  isGlobal?: boolean;
  routes?: string | LoginRoutes;
};

type Others = Partial<Omit<ModuleOptions, 'tenant' | 'tenants'>>;

/** Options with the tenant acme of the sandbox. */
export function acmeOptions(sandbox: ExhibitorSandbox, others: Others = {}) {
  return (redirectUri: string): ModuleOptions => ({
    tenant: sandbox.tenantOptions('acme', { redirectUri }),
    secrets: [COOKIE_SECRET],
    ...others,
  });
}

/** Options with several tenants of the sandbox. */
export function tenantsOptions(sandbox: ExhibitorSandbox, keys: readonly string[], others: Others = {}) {
  return (redirectUri: string): ModuleOptions => ({
    tenants: Object.fromEntries(keys.map((key) => [key, sandbox.tenantOptions(key, { redirectUri })])),
    secrets: [COOKIE_SECRET],
    ...others,
  });
}

export interface HostOptions {
  kind?: HostKind;
  /** Default: a free one. */
  port?: number | undefined;
  controllers?: Type[];
  /** Of the host's module, beside the imported one. */
  providers?: Provider[];
  /** Sets up the application before it listens: middleware, plugins. */
  configure?: (app: INestApplication) => unknown;
  /** Whether a close ends open connections. Default true. */
  forceCloseConnections?: boolean;
  /** Options of the module; given the address of this host. */
  options: (callback: string, url: string) => ModuleOptions | Promise<ModuleOptions>;
  /** That of the package, with these options. */
  module?: (options: ModuleOptions) => DynamicModule;
  /** Default: that of the kind. */
  adapter?: () => ExpressAdapter | FastifyAdapter;
  /** Modules to import before and after that of the package. */
  importedBefore?: (Type | DynamicModule)[];
  importedAfter?: (Type | DynamicModule)[];
}

/** Starts a Nest application with the module and the controller of the README on loopback. */
export async function startHost({
  kind = 'express',
  port: givenPort,
  controllers = [BoothController],
  providers = [],
  configure,
  forceCloseConnections = true,
  options,
  module = (given) => ExhibitorModule.forRoot(given),
  adapter,
  importedBefore = [],
  importedAfter = [],
}: HostOptions): Promise<Host> {
  const port = givenPort ?? (await freePort());
  const url = `http://127.0.0.1:${port}`;
  const callback = `${url}/auth/callback`;
  const mode = kind.includes('session') ? { session: 'host' as const } : {};
  const given = await options(callback, url);

  @Module({
    imports: [
      ...importedBefore,
      module({ ...mode, ...given, logoutCheck: { provider: true, ...given.logoutCheck } }),
      ...importedAfter,
    ],
    controllers,
    providers,
  })
  class AppModule {}

  const app = await createApp(kind, AppModule, forceCloseConnections, adapter);
  await configure?.(app);
  await app.listen(port, '127.0.0.1');
  return { app, url, callback, close: () => app.close() };
}

/** A Nest application of this kind, not listening yet. */
export async function createApp(
  kind: HostKind,
  module: Type,
  forceCloseConnections = true,
  adapter?: () => ExpressAdapter | FastifyAdapter,
): Promise<INestApplication> {
  const quiet = { logger: ['fatal'] as ['fatal'], forceCloseConnections, abortOnError: false };
  if (adapter !== undefined) {
    return NestFactory.create(module, adapter(), quiet);
  }
  if (kind.startsWith('express')) {
    const app = await NestFactory.create<NestExpressApplication>(module, new ExpressAdapter(), quiet);
    if (kind.includes('session')) {
      withExpressSession(app);
    }
    return app;
  }
  const app = await NestFactory.create<NestFastifyApplication>(module, new FastifyAdapter(), quiet);
  if (kind.includes('session')) {
    await withFastifySession(app);
  }
  return app;
}

function withExpressSession(app: NestExpressApplication): void {
  const auth = new passport.Passport();
  auth.serializeUser((user, done) => done(null, user));
  auth.deserializeUser((user: Express.User, done) => done(null, user));
  app.use(
    session({ secret: COOKIE_SECRET, resave: false, saveUninitialized: true, cookie: { secure: false } }),
  );
  app.use(auth.session());
}

async function withFastifySession(app: NestFastifyApplication): Promise<void> {
  const auth = new Authenticator();
  auth.registerUserSerializer(async (user) => user);
  auth.registerUserDeserializer(async (user) => user);
  await app.register(fastifyCookie as never);
  await app.register(
    fastifySession as never,
    { secret: COOKIE_SECRET, saveUninitialized: true, cookie: { secure: false } } as never,
  );
  await app.register(auth.initialize() as never);
  await app.register(auth.secureSession() as never);
}

/** A request with the session that a host has set. */
export interface SessionRequest {
  user?: unknown;
  session?: Record<string, unknown>;
}

/** Sets `request.user` of every request, as the session of a host does. */
export function setUser(
  app: INestApplication,
  kind: HostKind,
  user: (request: SessionRequest) => unknown,
): void {
  if (kind.startsWith('fastify')) {
    const fastify = app.getHttpAdapter().getInstance();
    fastify.addHook('preHandler', async (request: SessionRequest) => void (request.user = user(request)));
    return;
  }
  app.use((request: SessionRequest, _: unknown, next: () => void) => {
    request.user = user(request);
    next();
  });
}
