import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import fastifySecureSession from '@fastify/secure-session';
import { Controller, Get, Module, Redirect, Req, UseGuards, type INestApplication } from '@nestjs/common';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import expressSession, { MemoryStore } from 'express-session';
import {
  CurrentIdentity,
  ExhibitorCallbackGuard,
  ExhibitorModule,
  type ExhibitorIdentity,
  type SharedStore,
} from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { copyOf, identityOf } from '../login/journey.js';
import { BoothController } from '../support/booth.controller.js';
import {
  COOKIE_SECRET,
  createApp,
  setUser,
  startHost,
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
    const { body } = await get('/me');
    expect(body).toEqual({ tenant: 'acme', identity: user });
    expect(await get('/mine')).toMatchObject({ status: 200, body: { eventId: 'world-2026' } });
    user = Object.assign(Object.create({ isHostUser: true }), identity(), { department: 'sales' });
    expect((await get('/me')).status).toBe(200);
  });

  it('requires subject, issuer and tenant', async () => {
    user = {
      issuer: sandbox.url,
      subject: 'sam.several',
      email: 'sam.several@example.com',
      tenant: 'acme',
    };
    expect((await get('/events/world-2026/mine')).status).toBe(200);
    for (const missing of ['issuer', 'subject', 'email', 'tenant'] as const) {
      user = identity({ [missing]: undefined });
      expect([missing, (await get('/me')).status]).toEqual([missing, 401]);
    }
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
      user = identity({ expiresAt: undefined, redirectUri: undefined });
      const left = await fetch(`${host.url}/auth/logout`, { method: 'POST', redirect: 'manual' });
      expect(left.status).toBe(303);
      // Two hours more, for clocks that are set back.
      expect(ttls).toEqual([36_000_000 + 7_200_000]);
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

/** Stores the identity in the session, as a host without Passport does. */
@Controller()
class StoringController extends BoothController {
  @Get('auth/callback')
  @UseGuards(ExhibitorCallbackGuard)
  @Redirect('/', 303)
  override callback(
    @CurrentIdentity() identity: ExhibitorIdentity,
    @Req() request: SessionRequest = {},
  ): { url: string } {
    Object.assign(request.session ?? {}, { user: identity });
    return super.callback(identity);
  }

  @Get('visit')
  visit(@Req() { session = {} }: SessionRequest): object {
    const before = session['visited'] === true;
    session['visited'] = true;
    return { before };
  }
}

/** Its store takes a while to remove a session. */
class SlowStore extends MemoryStore {
  override destroy(id: string, done?: (error?: unknown) => void): void {
    setTimeout(() => super.destroy(id, done), 50);
  }
}

/** Sessions by id that `regenerate` empties at once or later, and gives another id later. */
const ownSessions = (idName: string, isEmptied: 'at once' | 'later') => (app: INestApplication) => {
  const sessions = new Map<string, Record<string, unknown>>();
  app.use(
    (request: SessionRequest & { headers: Record<string, string> }, response: never, next: () => void) => {
      const reply: { setHeader(name: string, value: string): void } = response;
      let id = /own=([^;]+)/.exec(request.headers['cookie'] ?? '')?.[1] ?? randomUUID();
      const session = sessions.get(id) ?? {};
      const keep = (): void => {
        sessions.set(id, session);
        reply.setHeader('Set-Cookie', `own=${id}; Path=/`);
      };
      keep();
      const regenerate = (done: () => void): void => {
        const empty = (): void => Object.keys(session).forEach((name) => delete session[name]);
        if (isEmptied === 'at once') {
          empty();
        }
        setTimeout(() => {
          empty();
          sessions.delete(id);
          id = randomUUID();
          keep();
          done();
        }, 50);
      };
      request.session = Object.defineProperties(session, {
        [idName]: { get: () => id, configurable: true },
        regenerate: { value: regenerate, configurable: true },
      });
      next();
    },
  );
};

describe.each<[what: string, kind: HostKind, configure: (app: INestApplication) => unknown]>([
  [
    '@fastify/secure-session',
    'fastify',
    (app) =>
      (app as NestFastifyApplication).register(
        fastifySecureSession as never,
        { key: Buffer.alloc(32, 'k'), cookie: { path: '/' } } as never,
      ),
  ],
  [
    'express-session with a slow store',
    'express',
    (app) =>
      app.use(
        expressSession({
          secret: COOKIE_SECRET,
          resave: false,
          saveUninitialized: true,
          store: new SlowStore(),
        }),
      ),
  ],
  ['a session of its own that is emptied before it has another id', 'express', ownSessions('id', 'at once')],
  ['a session of its own whose id has another name', 'express', ownSessions('key', 'later')],
])('a host without Passport and with %s', (_what, kind, configure) => {
  it('has a login that regenerates the session, selections, and a logout', async () => {
    const host = await startHost({
      kind,
      controllers: [StoringController],
      configure: async (app) => {
        await configure(app);
        setUser(app, kind, ({ session }) => session?.['user']);
      },
      options: (redirectUri) => ({
        session: 'host',
        secrets: [COOKIE_SECRET],
        tenant: sandbox.tenantOptions('acme', { redirectUri }),
      }),
    });
    const visitor = new Visitor();
    const hasVisited = async () => bodyOf(await visitor.visit(`${host.url}/visit`))['before'];
    expect([await hasVisited(), await hasVisited()]).toEqual([false, true]);
    const planted = copyOf(visitor, host);
    await signIn(sandbox, host, 'sam.several', {}, visitor);
    expect(await identityOf(planted, host)).toBeUndefined();
    expect(await identityOf(visitor, host)).toMatchObject({ email: 'sam.several@example.com' });
    expect(await hasVisited()).toBe(false);

    const booth = () => visitor.visit(`${host.url}/events/world-2026/booth`);
    const [, { id } = { id: '' }] = bodyOf<{ id: string }[]>(
      await visitor.visit(`${host.url}/events/world-2026/mine`),
    );
    expect((await booth()).status).toBe(409);
    await visitor.visit(`${host.url}/events/world-2026/select`, { json: { id } });
    expect(bodyOf(await booth())).toMatchObject({ id });

    expect((await visitor.visit(`${host.url}/auth/logout`, { method: 'POST' })).status).toBe(303);
    expect(await identityOf(visitor, host)).toBeUndefined();
    expect(await hasVisited()).toBe(false);
    await signIn(sandbox, host, 'sam.several', {}, visitor);
    expect((await booth()).status).toBe(409);
    await host.close();
  });
});
