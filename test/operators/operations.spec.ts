/** The recipes of docs/operations.md and docs/ending-logins.md, as they are. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import {
  Controller,
  Get,
  Post,
  Redirect,
  UseGuards,
  type DynamicModule,
  type INestApplication,
  type Type,
} from '@nestjs/common';
import { DocumentBuilder, SwaggerModule } from '@nestjs/swagger';
import { createClient, type RedisClientType } from 'redis';
import * as undici from 'undici';
import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals';
import {
  ExhibitorCallbackGuard,
  ExhibitorLoginGuard,
  ExhibitorLogoutGuard,
  TokenService,
  type ExhibitorModuleOptions,
  type TenantOptions,
} from '../../lib/index.js';
import { defaultSeed } from '../../lib/testing/sandbox/seed/seed.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { signIn } from '../guards/signed-in.js';
import { identityOf } from '../login/journey.js';
import { filesOf, namedSnippets, ROOT } from '../structure/readme.js';
import { BoothController } from '../support/booth.controller.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { describeWithRedis, RedisServer } from '../support/redis.js';
import { startSandbox } from '../support/sandbox.js';
import { freePort } from '../support/server.js';
import { loadSnippets } from '../support/snippets.js';
import { eventually } from '../support/wait.js';
import { Visitor } from '../support/visitor.js';

let sandbox: ExhibitorSandbox;
const seed = defaultSeed();
beforeAll(async () => {
  sandbox = await startSandbox({ seed });
});
afterAll(() => sandbox?.stop());

const options = (redirectUri: string): ExhibitorModuleOptions => ({
  tenant: sandbox.tenantOptions('acme', { redirectUri }),
  secrets: [COOKIE_SECRET],
});

/** For guards in other modules. */
const global = (redirectUri: string) => ({ ...options(redirectUri), isGlobal: true });

describe.each(['express', 'fastify'] as const)('drainOnSigterm, on %s', (kind) => {
  it('fails the readiness check, answers requests without keeping their connections, and closes', async () => {
    const { drainOnSigterm } = await loadSnippets<{
      drainOnSigterm(app: INestApplication, pause: number): void;
    }>('operations.md', 'drain');
    const host = await startHost({
      kind,
      options,
      controllers: [BoothController],
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
    expect(await get('/health/ready')).toEqual([200, false]);
    process.emit('SIGTERM');
    expect(await get('/health/ready')).toEqual([503, true]);
    expect(await get('/events/world-2026/mine')).toEqual([401, true]);
    const closed = () => get('/health/ready').then(Boolean, () => 'refused');
    await eventually(async () => (await closed()) === 'refused');
    await connections.close();
  });
});

describe('logins that @nestjs/throttler limits', () => {
  it('set no cookie and ask nobody beyond the limit, on Fastify', async () => {
    const { LoginModule } = await loadSnippets<{ LoginModule: Type }>('operations.md', 'throttler');
    const host = await startHost({
      kind: 'fastify',
      options: global,
      controllers: [],
      importedAfter: [LoginModule],
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
    await host.close();
  });
});

describe('the document of @nestjs/swagger', () => {
  interface Recipe {
    BoothController: Type;
    addLogin(document: DocumentBuilder, redirectUri: string): DocumentBuilder;
  }
  let recipe: Recipe;
  let host: Host;
  beforeAll(async () => {
    const { LoginModule, ...recipes } = await loadSnippets<Recipe & { LoginModule: Type }>(
      'operations.md',
      'swagger',
      'throttler',
    );
    recipe = recipes;
    const controllers = [recipe.BoothController];
    host = await startHost({ options: global, controllers, importedAfter: [LoginModule] });
  });
  afterAll(() => host?.close());

  const documentFor = (redirectUri: string) =>
    SwaggerModule.createDocument(host.app, recipe.addLogin(new DocumentBuilder(), redirectUri).build());

  it('names the statuses that the routes answer', async () => {
    const { paths } = documentFor(host.callback);
    const booth = paths['/events/{eventId}/booth']?.get;
    const documented = Object.keys(booth?.responses ?? {}).map(Number);
    const address = (eventId: string): string => `${host.url}/events/${eventId}/booth`;
    const [one, several] = [await signIn(sandbox, host, 'olga.one'), await signIn(sandbox, host)];
    const answered = [
      await one.visit(address('world-2026')),
      await new Visitor().visit(address('world-2026')),
      await one.visit(address('no-such-event')),
      await several.visit(address('world-2026')),
    ].map(({ status }) => status);
    expect(answered).toEqual([200, 401, 403, 409]);
    expect(documented).toEqual(answered);
    expect(booth).toMatchObject({
      parameters: [{ name: 'eventId', in: 'path', required: true }],
      security: [{ login: [] }],
    });

    const logout = await several.visit(`${host.url}/auth/logout`, { method: 'POST' });
    expect([logout.status, Object.keys(paths['/auth/logout']?.post?.responses ?? {})]).toEqual([
      303,
      ['303'],
    ]);
  });

  it('names the cookie, with and without TLS', async () => {
    const cookieOf = (redirectUri: string): unknown =>
      documentFor(redirectUri).components?.securitySchemes?.['login'];
    const visitor = await signIn(sandbox, host);
    const name = [...visitor.cookies('127.0.0.1').keys()].find((key) => key.endsWith('identity'));
    expect(cookieOf(host.callback)).toMatchObject({ type: 'apiKey', in: 'cookie', name });
    expect(cookieOf('https://host.example.com/auth/callback')).toMatchObject({ name: `__Host-${name}` });
  });
});

describe('an administrator', () => {
  it('ends every login of a user, and nobody else does', async () => {
    const folder = mkdtempSync(join(ROOT, 'test', '.readme-'));
    mkdirSync(folder, { recursive: true });
    for (const [path, code] of filesOf('docs/ending-logins.md')) {
      writeFileSync(join(folder, basename(path)), code);
    }
    writeFileSync(join(folder, 'people.ts'), namedSnippets('docs/ending-logins.md', 'stolen')[0]);
    const { PeopleController } = (await import(join(folder, 'people.ts'))) as { PeopleController: Type };
    rmSync(folder, { recursive: true });
    const host = await startHost({
      controllers: [BoothController, PeopleController],
      options: (redirectUri) => ({
        tenant: sandbox.tenantOptions('acme', { redirectUri }),
        secrets: [COOKIE_SECRET],
      }),
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
    await host.close();
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
    const tenants = new Map<string, TenantOptions>();
    const start = (callback?: string): Promise<Host> =>
      startHost({
        providers: [BlockedTenants],
        options: (own) => ({
          tenants: {
            find: (key) => {
              const redirectUri = callback ?? own;
              tenants.set('acme', tenants.get('acme') ?? sandbox.tenantOptions('acme', { redirectUri }));
              return isBlocked ? undefined : tenants.get(key);
            },
          },
          allowedOrigins: () => true,
          resolveTenant: () => 'acme',
          secrets: [COOKIE_SECRET],
        }),
      });
    let isBlocked = false;
    const one = await start();
    const two = await start(one.callback);
    const visitor = await signIn(sandbox, one);
    expect(await Promise.all([identityOf(visitor, one), identityOf(visitor, two)])).not.toContain(undefined);
    isBlocked = true;
    const statuses = () =>
      Promise.all([one, two].map(async ({ url }) => (await visitor.visit(`${url}/me`)).status));
    expect(await statuses()).toEqual([200, 200]);
    await one.app.get(BlockedTenants).block('acme');
    await eventually(async () => (await statuses()).every((status) => status === 404));
    await Promise.all([one.close(), two.close()]);
  });

  @Controller('auth')
  class LoginController {
    @Get('login') @UseGuards(ExhibitorLoginGuard) login(): void {}
    @Get('callback') @UseGuards(ExhibitorCallbackGuard) @Redirect('/landed', 303) callback(): void {}
    @Post('logout') @UseGuards(ExhibitorLogoutGuard) logout(): void {}
  }

  it('the client is open until the application has written its last logout, and closed afterwards', async () => {
    const recipe = await loadSnippets<{
      RedisConnection: Type<{ client: RedisClientType }>;
      exhibitorModule: DynamicModule;
    }>('operations.md', 'redis');
    const before = { ...process.env };
    const host = await startHost({
      options: (redirectUri) => {
        // After the import, as in `beforeAll` of a test of the host.
        Object.assign(process.env, sandbox.environment('acme', { redirectUri }));
        return options(redirectUri);
      },
      module: () => recipe.exhibitorModule,
      controllers: [LoginController],
    });
    process.env = before;
    const { client } = host.app.get(recipe.RedisConnection, { strict: false });
    await eventually(() => client.isReady);
    const visitor = await signIn(sandbox, host);
    const outage = jest.spyOn(client, 'set').mockRejectedValue(new Error('an outage'));
    await visitor.visit(`${host.url}/auth/logout`, { method: 'POST' });
    const reader = createClient({ url: redis.url });
    await reader.connect();
    expect(await reader.keys('*ended-login*')).toEqual([]);
    const closed = host.close();
    outage.mockRestore();
    await closed;
    expect(await reader.keys('*ended-login*')).toHaveLength(1);
    expect(client.isOpen).toBe(false);
    reader.destroy();
  });
});

describe('secrets from a vault', () => {
  const [acme] = seed.tenants;
  const values = {
    'exhibitor/api-client-secret': acme?.clientSecret ?? '',
    'exhibitor/login-client-secret': acme?.loginClientSecret ?? '',
    'exhibitor/cookie-secrets': '',
  };
  const reads: string[] = [];
  const vault = {
    async read(name: keyof typeof values): Promise<string> {
      reads.push(name);
      return values[name];
    },
  };
  interface Recipe {
    exhibitorOptions(from: typeof vault, tenant: TenantOptions): Promise<ExhibitorModuleOptions>;
  }
  let recipe: Recipe;
  beforeAll(async () => {
    recipe = await loadSnippets<Recipe>('operations.md', 'vault');
  });

  function deploy(cookieSecrets: string, port?: number): Promise<Host> {
    values['exhibitor/cookie-secrets'] = cookieSecrets;
    return startHost({
      port,
      options: (redirectUri) =>
        recipe.exhibitorOptions(vault, {
          ...sandbox.tenantOptions('acme', { redirectUri }),
          clientSecret: 'not that of the vault',
        }),
    });
  }

  it('are read again for each token, and once more where the provider refuses one', async () => {
    const host = await deploy('a-secret-of-the-tests-without-spaces');
    const tokens = host.app.get(TokenService);
    const secret = values['exhibitor/api-client-secret'];
    await tokens.getToken();
    await tokens.getToken();
    expect(reads).toEqual(['exhibitor/cookie-secrets', 'exhibitor/api-client-secret']);
    await tokens.invalidate();
    values['exhibitor/api-client-secret'] = 'revoked';
    const next = tokens.getToken();
    // The new one is written while the old one is refused.
    await eventually(() => reads.length === 3);
    values['exhibitor/api-client-secret'] = secret;
    await next;
    expect(reads).toHaveLength(4);
    await host.close();
  });

  it('that seal cookies rotate in three deployments, and nobody is logged out', async () => {
    const [before, after] = [
      'the-first-secret-of-these-tests-which-goes',
      'the-second-secret-of-these-tests-which-stays',
    ];
    const deployments = [before, `${before} ${after}`, `${after} ${before}`, after];
    // One after the other at one address: an identity counts only at the callback address of its login.
    const port = await freePort();
    const visitors: Visitor[] = [];
    for (const secrets of deployments) {
      const host = await deploy(secrets, port);
      visitors.push(await signIn(sandbox, host));
      await host.close();
    }
    const opened: boolean[][] = [];
    for (const secrets of deployments) {
      const host = await deploy(secrets, port);
      const replies = visitors.map((visitor) => visitor.visit(`${host.url}/me`));
      opened.push((await Promise.all(replies)).map(({ status }) => status === 200));
      await host.close();
    }
    // A row a deployment that opens, a column one that sealed: before, appended, promoted, removed.
    expect(opened).toEqual([
      [true, true, false, false],
      [true, true, true, true],
      [true, true, true, true],
      [false, false, true, true],
    ]);
  });
});
