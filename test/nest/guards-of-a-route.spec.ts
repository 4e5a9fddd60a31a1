import { beforeAll, describe, expect, it } from '@jest/globals';
import {
  Body,
  Controller,
  Get,
  Inject,
  Injectable,
  Module,
  Post,
  Req,
  Res,
  UseGuards,
  type CanActivate,
  type ExecutionContext,
} from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import {
  AllowAnonymous,
  CurrentEvent,
  CurrentExhibitor,
  CurrentExhibitors,
  CurrentIdentity,
  CurrentTenant,
  ExhibitorGuard,
  ExhibitorGuardServices,
  ExhibitorIdentityGuard,
  ExhibitorLoginGuard,
  ExhibitorLogoutGuard,
  ExhibitorModule,
  ExhibitorSelection,
  type Exhibitor,
  type ExhibitorIdentity,
  type ExhibitorModuleOptions,
  type HttpContext,
} from '../../lib/index.js';
import { MemoryStore } from '../store/memory-store.js';
import { BoothController } from '../support/booth.controller.js';
import { clockOf } from '../support/clock.js';
import { useFrontDoor } from '../support/front-door.js';
import { copyOf } from '../login/journey.js';
import {
  acmeOptions,
  COOKIE_SECRET,
  setUser,
  startHost,
  type Host,
  type HostKind,
  type HostOptions,
  type SessionRequest,
} from '../support/host.js';
import { useClosing, useHost } from '../support/lifetimes.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { routesOf } from './routes-of.js';
import { answerOf, bodyOf, hostUser, idsOf, logOut, Members, refused, signIn } from './signed-in.js';

/** A controller that cannot be decorated, as of another package. */
const METRICS = routesOf({ metrics: [] });

/** Guards every route of the host. */
@Injectable()
class SiteGuard extends ExhibitorGuard {
  protected override async allowsAnonymous(http: HttpContext): Promise<boolean> {
    return http.context.getClass() === METRICS || super.allowsAnonymous(http);
  }

  protected override onNoIdentity(http: HttpContext): Promise<never> {
    return this.redirectToLogin(http, '/auth/login?from=site');
  }
}

@Controller('public')
@AllowAnonymous()
class PublicController {
  constructor(@Inject(ExhibitorSelection) private readonly selection: ExhibitorSelection) {}

  @Get()
  all(
    @CurrentIdentity() identity: ExhibitorIdentity | undefined,
    @CurrentExhibitor() exhibitor: Exhibitor | undefined,
    @CurrentExhibitors() exhibitors: Exhibitor[],
    @CurrentTenant() tenant: string | undefined,
    @CurrentEvent() event: string | undefined,
    @Req() request: { exhibitors?: unknown[]; user?: unknown },
  ): object {
    const sameOnRequest = request.exhibitors?.length === exhibitors.length && !request.user === !identity;
    const { subject } = identity ?? {};
    return { subject, id: exhibitor?.['id'], count: exhibitors.length, tenant, event, sameOnRequest };
  }

  @Post('select')
  async select(
    @Req() request: object,
    @Res({ passthrough: true }) response: object,
    @Body('id') id: string,
  ): Promise<object> {
    return this.selection.select({ request, response }, id);
  }
}

@Injectable()
class OwnLoginGuard extends ExhibitorLoginGuard {}

/** Answers at once: only its class counts. */
class OwnLogoutGuard extends ExhibitorLogoutGuard {
  override canActivate(): boolean {
    return true;
  }
}
const LOGOUT_GUARD = new OwnLogoutGuard(Object.create(ExhibitorGuardServices.prototype));

const ROUTES = [
  routesOf({ members: [], 'members/news': [AllowAnonymous()] }),
  routesOf(
    {
      'public/booths/:exhibitorId': [],
      'public/closed': [AllowAnonymous(false)],
      'public/guarded': [UseGuards(ExhibitorIdentityGuard)],
      'public/guarded-again': [UseGuards(SiteGuard)],
      'public/opened': [AllowAnonymous(), UseGuards(ExhibitorIdentityGuard)],
    },
    AllowAnonymous(),
  ),
  routesOf({
    'own/subclass': [UseGuards(OwnLoginGuard)],
    'own/instance': [UseGuards(LOGOUT_GUARD)],
    'own/closed': [UseGuards(LOGOUT_GUARD), AllowAnonymous(false)],
    'own/guarded': [UseGuards(SiteGuard, LOGOUT_GUARD)],
  }),
  routesOf(
    { 'of-controller': [], 'of-controller/guarded': [UseGuards(ExhibitorIdentityGuard)] },
    UseGuards(LOGOUT_GUARD),
  ),
  routesOf(
    { 'guarded-controller': [UseGuards(LOGOUT_GUARD)], 'guarded-controller/open': [AllowAnonymous()] },
    UseGuards(SiteGuard),
  ),
];

const { sandbox, door } = await useFrontDoor();

const HOSTS: [kind: HostKind, session: 'cookie' | 'host' | 'bearer'][] = [
  ['express', 'cookie'],
  ['fastify + @fastify/session', 'host'],
  ['fastify', 'bearer'],
];

/** Sends requests of one person. */
type Ask = (path: string, headers?: Record<string, string>) => Promise<Reply>;

describe.each(HOSTS)("behind a global guard on %s, with session '%s'", (kind, session) => {
  const store = new MemoryStore();
  // The other kind of global guard where the host has a session.
  const isBound = session === 'host';
  const isBearer = session === 'bearer';
  const host = useHost(() =>
    startHost({
      kind,
      controllers: [BoothController, PublicController, METRICS, ...ROUTES],
      providers: isBound ? [] : [{ provide: APP_GUARD, useClass: SiteGuard }],
      configure: (app) =>
        isBound && app.useGlobalGuards(new SiteGuard(app.get(ExhibitorGuardServices, { strict: false }))),
      options: (redirectUri) => ({
        tenants: {
          acme: isBearer
            ? door.tenantOptions('acme', redirectUri)
            : sandbox.tenantOptions('acme', { redirectUri }),
        },
        resolveTenant: ({ query }) => query['tenant'] as string | undefined,
        secrets: [COOKIE_SECRET],
        session,
        store,
        logoutCheck: { ttl: 0 },
        http: { attempts: 1 },
      }),
    }),
  );
  let members: Members;
  beforeAll(() => void (members = new Members(sandbox, host)));

  const asVisitor =
    (visitor: Visitor): Ask =>
    (path, headers = {}) =>
      visitor.visit(`${host.url}${path}`, { headers });
  const withToken =
    (token: string): Ask =>
    (path, headers = {}) =>
      new Visitor().visit(`${host.url}${path}`, {
        headers: { authorization: `Bearer ${token}`, ...headers },
      });
  const nobody = asVisitor(new Visitor());

  const enter = async (person: string): Promise<Ask> =>
    isBearer
      ? withToken(await door.mint({ sub: person, email: `${person}@example.com` }))
      : asVisitor(await members.enter(person));

  const open = { count: 0, tenant: 'acme', sameOnRequest: true };

  it('lets nobody pass where it is allowed, and asks neither service nor store', async () => {
    sandbox.clearRequests();
    store.calls = 0;
    const garbage = new Visitor();
    garbage.cookies('127.0.0.1').set('exhibitor-identity', 'garbage').set('connect.sid', 'garbage');
    for (const ask of [nobody, asVisitor(garbage), withToken('garbage')]) {
      const reply = await ask('/public');
      expect(answerOf(reply)).toEqual([200, open]);
      expect(reply.headers.get('cache-control')).toBe('private, no-store');
      expect(reply.headers.get('www-authenticate')).toBeNull();
      expect(bodyOf(await ask('/public?eventId=world-2026'))).toEqual({ ...open, event: 'world-2026' });
      for (const path of ['/public/opened', '/public/booths/any']) {
        expect(answerOf(await ask(path))).toEqual([200, { tenant: 'acme', count: 0 }]);
      }
    }
    for (const path of ['/members/news', '/metrics', '/guarded-controller/open']) {
      expect((await nobody(path)).status).toBe(200);
    }
    expect(sandbox.requests).toEqual([]);
    expect(store.calls).toBe(0);
  });

  it('takes what has expired or was ended by a logout for nobody, and leaves it alone', async () => {
    const ours = ({ setCookies }: Reply): string[] => setCookies.filter((one) => one.includes('exhibitor'));
    const seen = async (ask: Ask): Promise<unknown> => {
      const reply = await ask('/public');
      expect(bodyOf(reply)).toMatchObject({ sameOnRequest: true });
      expect(ours(reply)).toEqual([]);
      return bodyOf(reply)['subject'];
    };
    if (isBearer) {
      const past = Math.floor(Date.now() / 1000) - 600;
      expect(await seen(withToken(await door.mint({ exp: past })))).toBeUndefined();
      return;
    }
    const visitor = await signIn(sandbox, host);
    const copy = copyOf(visitor, host);
    expect(await seen(asVisitor(visitor))).toBe('sam.several');
    const clock = clockOf(host.app);
    clock.skip(9 * 3_600_000);
    expect(await seen(asVisitor(visitor))).toBeUndefined();
    clock.back();
    await logOut(visitor, host);
    expect(await seen(asVisitor(copy))).toBeUndefined();
  });

  it('requires neither event nor exhibitor of a user', async () => {
    const olga = await enter('olga.one');
    const [id] = idsOf(sandbox, 'world-2026', 'olga.one');
    const user = { ...open, subject: 'olga.one' };
    expect(bodyOf(await olga('/public'))).toEqual(user);
    const atEvent = { ...user, event: 'world-2026', count: 1, id };
    expect(bodyOf(await olga('/public?eventId=world-2026'))).toEqual(atEvent);
    const atOther = { subject: 'olga.one', tenant: 'acme', eventId: 'world-2026', count: 1 };
    expect(bodyOf(await olga('/public/booths/of-others?eventId=world-2026'))).toEqual(atOther);
    const nora = bodyOf(await (await enter('nora.none'))('/public?eventId=world-2026'));
    expect(nora).toMatchObject({ subject: 'nora.none', count: 0 });
    const sam = bodyOf(await (await enter('sam.several'))('/public?eventId=world-2026'));
    expect(sam).toMatchObject({ subject: 'sam.several' });
    expect(sam['id']).toBeUndefined();
  });

  it('still answers an unknown tenant, a wrong event and a failing lookup', async () => {
    expect(answerOf(await nobody('/public?tenant=none'))).toEqual(refused(404, 'unknown_tenant'));
    expect((await nobody('/public?eventId=..')).status).toBe(400);
    const user = await enter('olga.one');
    sandbox.failNext('lookup', { kind: 'status', status: 503 });
    expect((await user('/public?eventId=national-2026')).status).toBe(503);
  });

  it.each([
    '/members',
    '/public/closed',
    '/public/guarded',
    '/public/guarded-again',
    '/own/closed',
    '/own/guarded',
    '/of-controller/guarded',
    '/guarded-controller',
  ])('refuses nobody at %s', async (path) => {
    const reply = await nobody(path);
    expect(answerOf(reply)).toEqual(refused(401, 'unauthenticated'));
    expect(reply.headers.get('www-authenticate')).toBe(isBearer ? 'Bearer' : null);
  });

  it('refuses the selection of nobody, and that of a user without an event', async () => {
    const select = (visitor: Visitor, headers: Record<string, string>): Promise<Reply> =>
      visitor.visit(`${host.url}/public/select`, { form: { id: 'any' }, headers });
    expect(answerOf(await select(new Visitor(), {}))).toEqual(refused(401, 'unauthenticated'));
    const byUser = await select(
      // The event of the login counts for reading only.
      isBearer ? new Visitor() : await members.enter('sam.several', { eventId: 'world-2026' }),
      isBearer ? { authorization: `Bearer ${await door.mint()}` } : {},
    );
    expect(answerOf(byUser)).toEqual(refused(400, 'event_required'));
  });

  it('exempts the routes of logins and logouts', async () => {
    const statusOf = async (path: string, method = 'GET'): Promise<number> =>
      (await new Visitor().visit(`${host.url}${path}`, { method })).status;
    expect(await statusOf('/auth/logout', 'POST')).toBe(303);
    expect(await statusOf('/auth/backchannel-logout', 'POST')).toBe(400);
    expect(answerOf(await nobody('/auth/callback'))).toEqual(refused(401, 'login_failed'));
    expect(await statusOf('/own/instance')).toBe(200);
    expect(await statusOf('/of-controller')).toBe(200);
    if (!isBearer) {
      for (const path of ['/auth/login', '/own/subclass']) {
        expect(await statusOf(path)).toBe(302);
      }
      // A failing lookup does not stand in the way of a user either.
      const visitor = await signIn(sandbox, host, 'sam.several', { eventId: 'regional-2026' });
      sandbox.failNext('lookup', { kind: 'status', status: 503 });
      expect((await logOut(visitor, host)).status).toBe(303);
    }
  });

  it('leads a navigation to the login and back, and nothing else', async () => {
    const page = '/events/world-2026/mine?a=b%20c';
    const html = { accept: 'text/html,*/*;q=0.8' };
    for (const headers of [html, { 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' }]) {
      const reply = await nobody(page, headers);
      const query = 'eventId=world-2026&returnTo=%2Fevents%2Fworld-2026%2Fmine%3Fa%3Db%2520c';
      expect([reply.status, reply.location]).toEqual([302, `${host.url}/auth/login?from=site&${query}`]);
      expect(reply.headers.get('cache-control')).toBe('private, no-store');
    }
    // What else is no navigation: pages.spec.ts.
    expect((await nobody(page)).status).toBe(401);
    if (!isBearer) {
      sandbox.signInAs('olga.one');
      const journey = await new Visitor().follow(`${host.url}/events/world-2026/mine`, undefined, html);
      expect([journey.status, bodyOf<unknown[]>(journey).length]).toEqual([200, 1]);
    }
  });
});

interface WithRoles extends ExhibitorIdentity {
  roles?: string[];
  /** The roles that the object had when this request came. */
  before?: string[];
}

/** A guard of a host, which adds to the user what it knows. */
class RolesGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const { user } = context.switchToHttp().getRequest<{ user: WithRoles }>();
    Object.assign(user, { before: user.roles ?? [], roles: ['editor'] });
    return true;
  }
}

/** A guard of a host, which replaces the user by a changed copy. */
class AddressGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<{ user: ExhibitorIdentity }>();
    request.user = { ...request.user, email: 'other@example.com' };
    return true;
  }
}

@Controller()
class GuardedAgainController {
  constructor(@Inject(ExhibitorSelection) private readonly selection: ExhibitorSelection) {}

  @Post('events/:eventId/select-guarded-again')
  @UseGuards(ExhibitorIdentityGuard, ExhibitorGuard, ExhibitorIdentityGuard)
  async select(
    @Req() request: object,
    @Res({ passthrough: true }) response: object,
    @CurrentExhibitors() [first]: Exhibitor[],
  ): Promise<object> {
    return this.selection.select({ request, response }, String(first?.['id']));
  }

  @Get('roles/:eventId')
  @UseGuards(ExhibitorIdentityGuard, RolesGuard, ExhibitorGuard, ExhibitorIdentityGuard)
  roles(@Req() { user }: { user: WithRoles }, @CurrentIdentity() identity: WithRoles): object {
    const isReadOnly = [user.claims, ...Object.values(user.claims)].every((value) => Object.isFrozen(value));
    const { subject, before, roles } = user;
    return { subject, before, roles, ofIdentity: identity.roles, isReadOnly };
  }

  @Get('replaced-user')
  @UseGuards(ExhibitorIdentityGuard, AddressGuard, ExhibitorIdentityGuard)
  replaced(@Req() { user }: { user: ExhibitorIdentity }, @CurrentIdentity() identity: object): object {
    return { email: user.email, isIdentity: user === identity };
  }
}

@Injectable()
class HostGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<{ exhibitorContext: object }>();
    request.exhibitorContext = { ...request.exhibitorContext, eventId: 'of-the-host' };
    return true;
  }
}

const AGAIN = routesOf({
  'many/:eventId': [
    UseGuards(ExhibitorIdentityGuard, ExhibitorGuard, ExhibitorIdentityGuard, ExhibitorGuard),
  ],
  'identity-last/:eventId': [UseGuards(ExhibitorGuard, ExhibitorIdentityGuard)],
  'own/:eventId': [UseGuards(ExhibitorIdentityGuard)],
  who: [UseGuards(ExhibitorIdentityGuard)],
  'no-guard': [],
  'guarded-again/:eventId': [UseGuards(ExhibitorGuard, HostGuard, ExhibitorGuard)],
});

describe.each(['express', 'fastify'] as const)('several guards of one request on %s', (kind) => {
  const asked: string[] = [];
  const answer = async (name: string, value: string | undefined): Promise<string | undefined> => {
    asked.push(name);
    return value;
  };
  const host = useHost(() =>
    startHost({
      kind,
      controllers: [BoothController, GuardedAgainController, AGAIN],
      options: (redirectUri) => ({
        tenants: { acme: sandbox.tenantOptions('acme', { redirectUri }) },
        resolveTenant: () => answer('tenant', 'acme'),
        resolveEvent: () => answer('event', 'world-2026'),
        resolveExhibitor: () => answer('exhibitor', undefined),
        secrets: [COOKIE_SECRET],
      }),
    }),
  );
  let visitor: Visitor;
  beforeAll(async () => {
    visitor = await signIn(sandbox, host, 'olga.one');
  });

  const get = async (path: string): Promise<unknown> => bodyOf(await visitor.visit(`${host.url}${path}`));

  it('ask the functions of the host once each, and the service once', async () => {
    asked.length = 0;
    sandbox.clearRequests();
    const reply = await visitor.visit(`${host.url}/many/of-the-route`);
    expect(bodyOf(reply)).toMatchObject({ tenant: 'acme', eventId: 'world-2026', count: 1 });
    expect(reply.headers.get('cache-control')).toBe('private, no-store');
    const byExhibitorGuard = ['tenant', 'event', 'exhibitor'];
    expect(asked).toEqual(['tenant', ...byExhibitorGuard, 'tenant', ...byExhibitorGuard]);
    expect(sandbox.requests.filter(({ operation }) => operation === 'lookup')).toHaveLength(1);
  });

  it('leave both results, whichever runs last', async () => {
    const [id] = idsOf(sandbox, 'world-2026', 'olga.one');
    const found = { subject: 'olga.one', tenant: 'acme', eventId: 'world-2026', count: 1, id };
    expect(await get('/identity-last/world-2026')).toEqual(found);
    // Also those of a guard of the host, which stands between them.
    expect(await get('/guarded-again/world-2026')).toEqual(found);
    const select = `${host.url}/events/world-2026/select-guarded-again`;
    expect((await visitor.visit(select, { method: 'POST' })).status).toBe(201);
    expect(await get('/no-guard')).toEqual({});
  });
});

describe('several guards of one request', () => {
  const closing = useClosing();
  const start = async (options: HostOptions['options'], more: Partial<HostOptions> = {}): Promise<Host> =>
    closing(
      await startHost({
        kind: 'fastify',
        controllers: [BoothController, GuardedAgainController, AGAIN],
        options,
        ...more,
      }),
    );
  const tokenOf = async (claims = {}): Promise<Record<string, string>> => ({
    authorization: `Bearer ${await door.mint(claims)}`,
  });

  it.each(['host', 'cookie'] as const)(
    "with session ['%s', 'bearer'] take a user with a token for no user of the browser",
    async (browser) => {
      const host = await start((redirectUri) => {
        const tenant = door.tenantOptions('acme', redirectUri);
        return {
          // The token names the client of the login, so that its identity fits in every other respect.
          tenant: { ...tenant, login: { ...tenant.login, authorizedParties: ['acme-web'] } },
          session: [browser, 'bearer'],
          secrets: [COOKIE_SECRET],
        };
      });
      const reply = await new Visitor().visit(`${host.url}/events/world-2026/select-guarded-again`, {
        method: 'POST',
        headers: await tokenOf({ azp: 'acme-web' }),
      });
      expect([reply.status, reply.text]).toEqual([
        400,
        expect.stringContaining("a selection cannot be stored with session 'bearer'"),
      ]);
    },
  );

  it("with session ['bearer', 'host'] take a user with a token for no user of a host that has kept the object", async () => {
    let kept: unknown;
    let last: SessionRequest | undefined;
    const host = await start(
      (redirectUri) => {
        const tenant = door.tenantOptions('acme', redirectUri);
        return {
          tenant: { ...tenant, login: { ...tenant.login, authorizedParties: ['acme-web'] } },
          session: ['bearer', 'host'],
          secrets: [COOKIE_SECRET],
        };
      },
      {
        kind: 'express',
        configure: (app) =>
          setUser(app, 'express', (request) => {
            last = request;
            return kept;
          }),
      },
    );
    const visit = async (headers = {}) => new Visitor().visit(`${host.url}/own/world-2026`, { headers });
    expect((await visit(await tokenOf({ azp: 'acme-web' }))).status).toBe(200);
    kept = last?.user;
    expect((await visit()).status).toBe(401);
    // A host that copies the user into its session means to log that person in.
    kept = structuredClone(kept);
    expect((await visit()).status).toBe(200);
  });

  it.each([
    ['cookie', 'express'],
    ['host', 'fastify'],
    ['host', 'express'],
    ['bearer', 'fastify'],
  ] as const)(
    "leave request.user to the request: a host may add members, which no other request has (session: '%s', %s)",
    async (session, kind) => {
      let user: object | undefined;
      const host = await start(
        (redirectUri) => {
          const tenant = sandbox.tenantOptions('acme', { redirectUri });
          user = hostUser(tenant);
          return {
            tenant: session === 'bearer' ? door.tenantOptions('acme', redirectUri) : tenant,
            session,
            secrets: [COOKIE_SECRET],
          };
        },
        {
          kind,
          configure: (app) =>
            session === 'host' &&
            setUser(app, kind, () => ({ ...user, claims: { name: 'Sam', nested: {} } })),
        },
      );
      const visitor = session === 'cookie' ? await signIn(sandbox, host, 'olga.one') : new Visitor();
      const headers = session === 'bearer' ? await tokenOf() : {};
      const roles = { before: [], roles: ['editor'], ofIdentity: ['editor'], isReadOnly: true };
      for (let visit = 0; visit < 3; visit += 1) {
        const reply = await visitor.visit(`${host.url}/roles/world-2026`, { headers });
        expect(answerOf(reply)).toEqual([200, { subject: expect.any(String), ...roles }]);
      }
    },
  );

  it("with session 'host' read the user again that a guard of the host has put in its place", async () => {
    let user: object | undefined;
    const host = await start(
      (redirectUri) => {
        const tenant = sandbox.tenantOptions('acme', { redirectUri });
        user = hostUser(tenant);
        return { tenant, session: 'host', secrets: [COOKIE_SECRET] };
      },
      { configure: (app) => setUser(app, 'fastify', () => user) },
    );
    const reply = await new Visitor().visit(`${host.url}/replaced-user`);
    expect(answerOf(reply)).toEqual([200, { email: 'other@example.com', isIdentity: true }]);
  });

  it('all run: a global ExhibitorGuard also where ExhibitorIdentityGuard stands on the route', async () => {
    const host = await start(acmeOptions(sandbox), {
      providers: [{ provide: APP_GUARD, useClass: ExhibitorGuard }],
    });
    const [olga, nora] = [await signIn(sandbox, host, 'olga.one'), await signIn(sandbox, host, 'nora.none')];
    const path = `${host.url}/own/world-2026`;
    expect(bodyOf(await olga.visit(path))).toMatchObject({ count: 1 });
    expect((await nora.visit(path)).status).toBe(403);
  });

  describe('of two modules', () => {
    /** A host whose first module guards every route, and whose second module has the routes. */
    async function startSideBySide(
      first: ExhibitorModuleOptions,
      second: ExhibitorModuleOptions,
      user?: object,
    ): Promise<string> {
      @Module({
        imports: [ExhibitorModule.forRoot(first)],
        providers: [{ provide: APP_GUARD, useClass: ExhibitorIdentityGuard }],
      })
      class FirstModule {}
      const host = await start(() => second, {
        kind: 'express',
        controllers: [AGAIN],
        importedBefore: [FirstModule],
        configure: (app) => user !== undefined && setUser(app, 'express', () => user),
      });
      return host.url;
    }

    it('share no user: each reads its own session', async () => {
      const tenant = door.tenantOptions('acme', 'http://127.0.0.1:3000/auth/callback');
      const login = { ...tenant.login, authorizedParties: ['acme-web'] };
      const url = await startSideBySide(
        { tenant: { ...tenant, login }, session: 'bearer' },
        { tenant, session: 'host', secrets: [COOKIE_SECRET] },
      );
      const headers = await tokenOf({ azp: 'acme-web' });
      expect(answerOf(await new Visitor().visit(`${url}/who`, { headers }))).toEqual(
        refused(401, 'unauthenticated'),
      );
    });

    it('share no answer of a function of the host', async () => {
      const tenants = { acme: sandbox.tenantOptions('acme'), globex: sandbox.tenantOptions('globex') };
      const shared = { tenants, session: 'host' as const, secrets: [COOKIE_SECRET] };
      const url = await startSideBySide(
        { ...shared, resolveTenant: () => 'acme' },
        { ...shared, resolveTenant: () => 'globex' },
        hostUser(tenants.acme, 'acme'),
      );
      expect((await fetch(`${url}/who`)).status).toBe(401);
    });
  });
});
