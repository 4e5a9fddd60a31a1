import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import fastifySecureSession from '@fastify/secure-session';
import {
  Controller,
  Get,
  Module,
  Post,
  Redirect,
  Req,
  UseGuards,
  type INestApplication,
  type Type,
} from '@nestjs/common';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import cookieSession from 'cookie-session';
import {
  CurrentIdentity,
  ExhibitorCallbackGuard,
  ExhibitorLogoutGuard,
  ExhibitorModule,
  type ExhibitorIdentity,
  type HttpContext,
  type SharedStore,
} from '../../lib/index.js';
import { EndedLogins } from '../../lib/store/ended-logins.service.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { copyOf, identityOf } from '../login/journey.js';
import { BoothController } from '../support/booth.controller.js';
import {
  COOKIE_SECRET,
  createApp,
  setUser,
  startHost,
  type Host,
  type HostKind,
  type SessionRequest,
} from '../support/host.js';
import { freePort } from '../support/server.js';
import { startSandbox } from '../support/sandbox.js';
import { Visitor } from '../support/visitor.js';
import { bodyOf, signIn } from './signed-in.js';

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());

/** A host that stores the identity itself. */
describe.each(['express', 'fastify'] as const)("session: 'host' on %s", (kind) => {
  let app: INestApplication;
  let url: string;
  let user: unknown;

  beforeAll(async () => {
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    const redirectUri = `${url}/auth/callback`;

    @Module({
      imports: [
        ExhibitorModule.forRoot({
          tenants: {
            acme: sandbox.tenantOptions('acme', { redirectUri }),
            globex: sandbox.tenantOptions('globex', { redirectUri }),
          },
          resolveTenant: ({ headers }) => {
            const named = headers['x-tenant'];
            return typeof named === 'string' ? named : undefined;
          },
          session: 'host',
          secrets: [COOKIE_SECRET],
          logoutCheck: { provider: true },
        }),
      ],
      controllers: [BoothController],
    })
    class AppModule {}

    app = await createApp(kind, AppModule);
    setUser(app, kind, () => user);
    await app.listen(port, '127.0.0.1');
  });
  afterAll(() => app?.close());

  const identity = (overrides: Partial<Record<keyof ExhibitorIdentity, unknown>> = {}): object => ({
    id: 'login-1',
    issuer: sandbox.url,
    subject: 'sam.several',
    email: 'sam.several@example.com',
    claims: { name: 'Sam Several' },
    tenant: 'acme',
    tenantId: sandbox.tenantOptions('acme').tenantId,
    clientId: 'acme-web',
    eventId: 'world-2026',
    redirectUri: `${url}/auth/callback`,
    expiresAt: Date.now() + 60_000,
    ...overrides,
  });
  beforeEach(() => {
    user = identity();
  });
  const get = async (path: string, headers: Record<string, string> = {}) => {
    const reply = await fetch(`${url}${path}`, { headers });
    return { status: reply.status, body: (await reply.json()) as Record<string, unknown> };
  };

  it('reads the identity from the request: plain data of any class', async () => {
    const claims = { name: 'Sam Several', address: { country: 'DE' }, roles: ['sales'] };
    user = identity({ claims });
    const { body } = await get('/me');
    expect(body).toEqual({ tenant: 'acme', identity: user });
    // Those of the request are read-only, but the claims in a session are the host's.
    expect([claims, claims.address, claims.roles].map((value) => Object.isFrozen(value))).toEqual(
      Array(3).fill(false),
    );
    expect(await get('/mine')).toMatchObject({ status: 200, body: { eventId: 'world-2026' } });
    user = Object.assign(Object.create({ isHostUser: true }), identity(), { department: 'sales' });
    expect((await get('/me')).status).toBe(200);
  });

  it('requires subject, issuer, e-mail address and tenant; what else a host left out is not compared', async () => {
    const { issuer, subject, email, tenant } = identity() as ExhibitorIdentity;
    user = { issuer, subject, email, tenant };
    expect((await get('/events/world-2026/mine')).status).toBe(200);
    for (const missing of ['issuer', 'subject', 'email', 'tenant']) {
      user = identity({ [missing]: undefined });
      expect([missing, (await get('/me')).status]).toEqual([missing, 401]);
    }
  });

  it('without a redirectUri logs out on its own origin, and on no other', async () => {
    const { issuer, subject, email, tenant } = identity() as ExhibitorIdentity;
    user = { issuer, subject, email, tenant };
    const from = async (origin: string): Promise<unknown> => {
      const reply = await fetch(`${url}/auth/logout`, { method: 'POST', headers: { origin } });
      return ((await reply.json()) as Record<string, unknown>)['code'];
    };
    // This host has nothing that would remove the user from its session.
    expect([await from('https://evil.example'), await from(url)]).toEqual([
      'invalid_argument',
      'configuration_invalid',
    ]);
  });

  it('without an id ends no login of others that have none', async () => {
    user = identity({ id: undefined });
    await fetch(`${url}/auth/logout`, { method: 'POST' });
    expect((await get('/me')).status).toBe(200);
  });

  it.each<[what: string, overrides: Partial<Record<keyof ExhibitorIdentity, unknown>>]>([
    ['of another issuer', { issuer: 'https://evil.example' }],
    ['of another client', { clientId: 'globex-web' }],
    ['of another host with the same client', { redirectUri: 'https://admin.example.com/auth/callback' }],
    ['of a tenant id that the key has no more', { tenantId: 'the id of a former customer' }],
    ['of a tenant nobody has', { tenant: '__proto__' }],
    ['that is over', { expiresAt: 1 }],
    ['whose end is no number', { expiresAt: Number.NaN }],
  ])('treats a user %s as not logged in', async (_, overrides) => {
    user = identity(overrides);
    expect(await get('/me')).toMatchObject({ status: 401, body: { code: 'unauthenticated' } });
  });

  it('remembers the logout of a user without an end as long as a login may last, in the store too', async () => {
    const ttls: number[] = [];
    const store: SharedStore = {
      get: async () => undefined,
      set: async (_key, _value, { ttl }) => ttls.push(ttl) > 0,
      delete: async () => undefined,
    };
    const host = await startHost({
      kind,
      configure: (given) => setUser(given, kind, () => user),
      options: (redirectUri) => ({
        tenants: { acme: sandbox.tenantOptions('acme', { redirectUri }) },
        session: 'host',
        secrets: [COOKIE_SECRET],
        cookies: { absoluteTtl: 36_000_000 },
        store,
      }),
    });
    try {
      user = identity({ expiresAt: undefined, redirectUri: `${host.url}/auth/callback` });
      const left = await fetch(`${host.url}/auth/logout`, { method: 'POST', redirect: 'manual' });
      // Nothing removes the identity here; the login has ended all the same.
      expect(left.status).toBe(500);
      // Two hours more, for clocks that are set back.
      expect(ttls).toHaveLength(1);
      expect(Math.abs((ttls[0] ?? 0) - 36_000_000 - 7_200_000)).toBeLessThan(1_000);
    } finally {
      await host.close();
    }
  });

  it('treats a user with a member of a wrong type as not logged in', async () => {
    const texts = [
      'id',
      'issuer',
      'subject',
      'email',
      'tenant',
      'tenantId',
      'clientId',
      'redirectUri',
      'registration',
      'eventId',
      'returnTo',
      'sid',
    ];
    const wrong = [...texts.map((name) => [name, 42]), ['claims', 'none'], ['claims', []], ['claims', null]];
    for (const [name, value] of [...wrong, ['loggedInAt', '1'], ['expiresAt', '9e15'], ['expiresAt', null]]) {
      user = identity({ [String(name)]: value });
      expect([name, value, (await get('/me')).status]).toEqual([name, value, 401]);
    }
    user = identity({ loggedInAt: 1, returnTo: '/', sid: 'session-1' });
    expect((await get('/me')).status).toBe(200);
  });

  it.each([null, undefined, 'sam.several', 42, [], { sub: 'sam.several' }])(
    'treats a user of another kind as not logged in: %j',
    async (other) => {
      user = other;
      expect((await get('/me')).status).toBe(401);
    },
  );

  it('treats a person of another tenant as not logged in', async () => {
    expect((await get('/me', { 'x-tenant': 'acme' })).status).toBe(200);
    expect((await get('/me', { 'x-tenant': 'globex' })).status).toBe(401);
  });
});

/** A host that sees whether a session is a new one. */
@Controller()
class VisitedController extends BoothController {
  @Get('visit')
  visit(@Req() request: SessionRequest): object {
    const session = request.session ?? {};
    const before = session['visited'] === true;
    session['visited'] = true;
    return { before };
  }
}

interface SecureSession {
  regenerate(): void;
  set(name: string, value: unknown): void;
  delete(): void;
}

const secureSessionOf = ({ request }: HttpContext): SecureSession => request.session as SecureSession;

class SecureSessionCallback extends ExhibitorCallbackGuard {
  protected override storeIdentity(http: HttpContext, identity: ExhibitorIdentity): void {
    secureSessionOf(http).regenerate();
    secureSessionOf(http).set('user', identity);
  }
}

class SecureSessionLogout extends ExhibitorLogoutGuard {
  protected override removeIdentity(http: HttpContext): void {
    secureSessionOf(http).delete();
  }
}

@Controller()
class SecureSessionController extends VisitedController {
  @Get('auth/callback')
  @UseGuards(SecureSessionCallback)
  @Redirect('/', 303)
  override callback(@CurrentIdentity() identity: ExhibitorIdentity): { url: string } {
    return super.callback(identity);
  }

  @Post('auth/logout')
  @UseGuards(SecureSessionLogout)
  @Redirect('/', 303)
  override logout(): void {}
}

class CookieSessionCallback extends ExhibitorCallbackGuard {
  protected override storeIdentity({ request }: HttpContext, identity: ExhibitorIdentity): void {
    request.session = { user: identity };
  }
}

class CookieSessionLogout extends ExhibitorLogoutGuard {
  protected override removeIdentity({ request }: HttpContext): void {
    request.session = null;
  }
}

@Controller()
class CookieSessionController extends VisitedController {
  @Get('auth/callback')
  @UseGuards(CookieSessionCallback)
  @Redirect('/', 303)
  override callback(@CurrentIdentity() identity: ExhibitorIdentity): { url: string } {
    return super.callback(identity);
  }

  @Post('auth/logout')
  @UseGuards(CookieSessionLogout)
  @Redirect('/', 303)
  override logout(): void {}
}

interface SessionHost {
  kind: HostKind;
  controller: Type;
  configure?: (app: INestApplication) => unknown;
}

const userOfSession = (app: INestApplication, kind: HostKind): void =>
  setUser(app, kind, ({ session }) => session?.['user']);

describe.each<[what: string, host: SessionHost]>([
  ['express-session and Passport', { kind: 'express + express-session', controller: VisitedController }],
  [
    '@fastify/session and @fastify/passport',
    { kind: 'fastify + @fastify/session', controller: VisitedController },
  ],
  [
    '@fastify/secure-session without Passport',
    {
      kind: 'fastify',
      controller: SecureSessionController,
      configure: async (app) => {
        await (app as NestFastifyApplication).register(
          fastifySecureSession as never,
          { key: Buffer.alloc(32, 'k'), cookie: { path: '/' } } as never,
        );
        userOfSession(app, 'fastify');
      },
    },
  ],
  [
    'cookie-session without Passport',
    {
      kind: 'express',
      controller: CookieSessionController,
      configure: (app) => {
        app.use(cookieSession({ name: 'own', keys: [COOKIE_SECRET] }));
        userOfSession(app, 'express');
      },
    },
  ],
])('a host with %s', (_what, { kind, controller, configure }) => {
  let host: Host;
  beforeAll(async () => {
    host = await startHost({
      kind,
      controllers: [controller],
      ...(configure && { configure }),
      options: (redirectUri) => ({
        session: 'host',
        secrets: [COOKIE_SECRET],
        tenant: sandbox.tenantOptions('acme', { redirectUri }),
      }),
    });
  });
  afterAll(() => host?.close());

  it('has a login in a new session, so that a planted one is worth nothing, and a logout', async () => {
    const visitor = new Visitor();
    const hasVisited = async () => bodyOf(await visitor.visit(`${host.url}/visit`))['before'];
    expect([await hasVisited(), await hasVisited()]).toEqual([false, true]);
    const planted = copyOf(visitor, host);
    await signIn(sandbox, host, 'sam.several', {}, visitor);
    expect(await identityOf(planted, host)).toBeUndefined();
    expect(await identityOf(visitor, host)).toMatchObject({ email: 'sam.several@example.com' });
    expect(await hasVisited()).toBe(false);

    const copy = copyOf(visitor, host);
    expect((await visitor.visit(`${host.url}/auth/logout`, { method: 'POST' })).status).toBe(303);
    expect(await identityOf(visitor, host)).toBeUndefined();
    // Also a copy of a cookie that holds the whole session.
    expect(await identityOf(copy, host)).toBeUndefined();
    expect(await hasVisited()).toBe(false);
  });

  it('has selections in a cookie of their own, which the logout removes', async () => {
    const visitor = await signIn(sandbox, host);
    const booth = () => visitor.visit(`${host.url}/events/world-2026/booth`);
    const [, { id } = { id: '' }] = bodyOf<{ id: string }[]>(
      await visitor.visit(`${host.url}/events/world-2026/mine`),
    );
    expect((await booth()).status).toBe(409);
    await visitor.visit(`${host.url}/events/world-2026/select`, { json: { id } });
    expect(bodyOf(await booth())).toMatchObject({ id });
    expect((await visitor.visit(`${host.url}/auth/logout`, { method: 'POST' })).status).toBe(303);
    await signIn(sandbox, host, 'sam.several', {}, visitor);
    expect((await booth()).status).toBe(409);
  });

  it('ends a login by the next one in the same browser', async () => {
    const visitor = await signIn(sandbox, host);
    const copy = copyOf(visitor, host);
    const { id } = (await identityOf(visitor, host)) ?? {};
    await signIn(sandbox, host, 'olga.one', {}, visitor);
    expect((await identityOf(visitor, host))?.subject).toBe('olga.one');
    expect((await identityOf(copy, host))?.id).not.toBe(id);
    expect(await host.app.get(EndedLogins).has({ id: id ?? '', subject: 'sam.several' }, '')).toBe(true);
  });
});
