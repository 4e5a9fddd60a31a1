import { beforeEach, describe, expect, it } from '@jest/globals';
import fastifySecureSession from '@fastify/secure-session';
import {
  Controller,
  Get,
  Injectable,
  Post,
  Redirect,
  Req,
  UseGuards,
  type CanActivate,
  type ExecutionContext,
  type INestApplication,
  type Type,
} from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';
import cookieSession from 'cookie-session';
import {
  CurrentExhibitors,
  CurrentIdentity,
  ExhibitorCallbackGuard,
  ExhibitorGuard,
  ExhibitorIdentityGuard,
  ExhibitorLogoutGuard,
  type Exhibitor,
  type ExhibitorIdentity,
  type HttpContext,
  type SharedStore,
} from '../../lib/index.js';
import { EndedLogins } from '../../lib/login/ended-logins.service.js';
import { copyOf, identityOf } from '../login/journey.js';
import { BoothController } from '../support/booth.controller.js';
import {
  acmeOptions,
  COOKIE_SECRET,
  setUser,
  startHost,
  tenantsOptions,
  type HostKind,
  type SessionRequest,
} from '../support/host.js';
import { useClosing, useHost, useSandbox } from '../support/lifetimes.js';
import { loggedLines } from '../support/logged-lines.js';
import { Visitor } from '../support/visitor.js';
import { answerOf, bodyOf, hostUser, idsOf, logOut, refused, signIn } from './signed-in.js';

const sandbox = await useSandbox();
const logged = loggedLines();

type Members = Partial<Record<keyof ExhibitorIdentity, unknown>>;

/** What `/keep` has found in `request.user`. */
const kept: unknown[] = [];

/** A host that keeps `request.user` in memory, as one with `@fastify/session` does by `request.logIn(request.user)`. */
@Controller()
class KeepingController extends BoothController {
  @Get('keep')
  @UseGuards(ExhibitorIdentityGuard)
  keep(@Req() request: SessionRequest): object {
    kept.push(request.user);
    return {};
  }
}

/** A host that stores the identity itself. */
describe.each(['express', 'fastify'] as const)("session: 'host' on %s", (kind) => {
  const closing = useClosing();
  let user: unknown;
  const host = useHost(() =>
    startHost({
      kind,
      controllers: [KeepingController],
      configure: (app) => setUser(app, kind, () => user),
      options: tenantsOptions(sandbox, ['acme', 'globex'], {
        resolveTenant: ({ headers }) => headers['x-tenant'] as string | undefined,
        session: 'host',
      }),
    }),
  );

  const identity = (overrides: Members = {}): object => ({
    ...hostUser(sandbox.tenantOptions('acme', { redirectUri: host.callback }), 'acme'),
    eventId: 'world-2026',
    expiresAt: Date.now() + 60_000,
    ...overrides,
  });
  const atLeast = (): Members => {
    const { issuer, subject, email, tenant } = identity() as Members;
    return { issuer, subject, email, tenant };
  };
  beforeEach(() => {
    user = identity();
  });
  const get = async (path: string, headers: Record<string, string> = {}) =>
    answerOf(await new Visitor().visit(`${host.url}${path}`, { headers }));

  it('reads the identity from the request: plain data of any class', async () => {
    const claims = { name: 'Sam', address: { country: 'DE' }, roles: ['sales'], ['__proto__']: { a: 1 } };
    user = identity({ claims });
    expect(await get('/me')).toEqual([200, { tenant: 'acme', identity: user }]);
    // Those of the request are read-only, but the claims in a session are the host's.
    expect([claims, claims.address, claims.roles].map((value) => Object.isFrozen(value))).toEqual(
      Array(3).fill(false),
    );
    expect(await get('/mine')).toMatchObject([200, { eventId: 'world-2026' }]);
    user = Object.assign(Object.create({ isHostUser: true }), identity(), { department: 'sales' });
    expect(await get('/me')).toMatchObject([200, {}]);
  });

  it('may have null for what is optional, as columns of a database do', async () => {
    user = identity({ sid: null, returnTo: null, registration: null, loggedInAt: null });
    expect(await get('/mine')).toMatchObject([200, { eventId: 'world-2026' }]);
  });

  it.each(['a/../b@example.com', '..', 'no address'])('sends no lookup of %s', async (email) => {
    user = identity({ email });
    const before = sandbox.requests.length;
    expect(await get('/mine')).toEqual(refused(400, 'invalid_argument'));
    expect(sandbox.requests.slice(before).map((one) => JSON.stringify(one))).toEqual([]);
  });

  it('gives each request an object of its own, also where the host has kept that of another one', async () => {
    await get('/keep');
    const before = kept.at(-1);
    user = before;
    await get('/keep');
    // A member that one request adds, such as a role at its event, must not be there in another that runs meanwhile.
    expect(kept.at(-1) === before).toBe(false);
    expect(kept.at(-1)).toEqual(before);
  });

  it('requires subject, issuer, e-mail address and the tenant asked for; what else a host left out is not compared', async () => {
    user = atLeast();
    expect(await get('/events/world-2026/mine')).toMatchObject([200, idsOf(sandbox).map((id) => ({ id }))]);
    for (const missing of Object.keys(atLeast())) {
      user = identity({ [missing]: undefined });
      expect([missing, ...(await get('/me'))]).toEqual([missing, ...refused(401, 'unauthenticated')]);
    }
    user = atLeast();
    expect((await get('/me', { 'x-tenant': 'globex' }))[0]).toBe(401);
  });

  it('without a redirectUri logs out on its own origin, and on no other', async () => {
    user = atLeast();
    const from = async (origin: string) => answerOf(await logOut(new Visitor(), host, { origin }));
    expect(await from('https://evil.example')).toEqual(refused(400, 'invalid_argument'));
    // This host has nothing that would remove the user from its session.
    expect(await from(host.url)).toEqual(refused(500, 'configuration_invalid'));
  });

  it('without an id ends no login of others that have none', async () => {
    user = identity({ id: undefined });
    await logOut(new Visitor(), host);
    expect((await get('/me'))[0]).toBe(200);
  });

  it.each<[what: string, overrides: Members]>([
    ['of another issuer', { issuer: 'https://evil.example' }],
    ['of another client', { clientId: 'globex-web' }],
    ['of another host with the same client', { redirectUri: 'https://admin.example.com/auth/callback' }],
    ['of a tenant id that the key has no more', { tenantId: 'the id of a former customer' }],
    ['of a tenant nobody has', { tenant: '__proto__' }],
    ['that is over', { expiresAt: 1 }],
    ['without an end, whose login is over', { expiresAt: undefined, loggedInAt: Date.now() - 28_801_000 }],
    ['whose end is no number', { expiresAt: Number.NaN }],
  ])('treats a user %s as not logged in', async (_, overrides) => {
    user = identity(overrides);
    expect(await get('/me')).toEqual(refused(401, 'unauthenticated'));
  });

  it('remembers the logout of a user without an end as long as a login may last, in the store too', async () => {
    const ttls: number[] = [];
    const store: SharedStore = {
      get: async () => undefined,
      set: async (_key, _value, { ttl }) => ttls.push(ttl) > 0,
      delete: async () => undefined,
    };
    const storing = closing(
      await startHost({
        kind,
        configure: (app) => setUser(app, kind, () => user),
        options: tenantsOptions(sandbox, ['acme'], {
          session: 'host',
          cookies: { absoluteTtl: 36_000_000 },
          store,
        }),
      }),
    );
    user = identity({ expiresAt: undefined, redirectUri: storing.callback });
    // Nothing removes the identity here; the login has ended all the same.
    expect(answerOf(await logOut(new Visitor(), storing))).toEqual(refused(500, 'configuration_invalid'));
    expect(logged.errors.join()).toContain('ExhibitorLogoutGuard.removeIdentity of your own');
    expect((await new Visitor().visit(`${storing.url}/me`)).status).toBe(401);
    // Two hours more, for clocks that are set back.
    expect(ttls).toHaveLength(1);
    expect(Math.abs((ttls[0] ?? 0) - 36_000_000 - 7_200_000)).toBeLessThan(1_000);
  });

  it('treats a user of another kind, or with a member of a wrong type, as not logged in', async () => {
    const texts = ['id', 'issuer', 'subject', 'email', 'tenant', 'tenantId', 'clientId', 'redirectUri'];
    const others = ['registration', 'eventId', 'returnTo', 'sid'];
    const wrong = [...texts, ...others].map((name): [string, unknown] => [name, 42]);
    wrong.push(['claims', 'none'], ['claims', []], ['claims', null]);
    wrong.push(['loggedInAt', '1'], ['expiresAt', '9e15'], ['expiresAt', null]);
    for (const [name, value] of wrong) {
      user = identity({ [name]: value });
      expect([name, value, (await get('/me'))[0]]).toEqual([name, value, 401]);
    }
    for (const other of [null, undefined, 'sam.several', 42, [], { sub: 'sam.several' }]) {
      user = other;
      expect([other, (await get('/me'))[0]]).toEqual([other, 401]);
    }
    user = identity({ loggedInAt: 1, returnTo: '/', sid: 'session-1' });
    expect((await get('/me'))[0]).toBe(200);
  });
});

/** A guard of a host, on a route below a global {@link ExhibitorGuard}, that changes whom that guard has found. */
@Injectable()
abstract class ChangingGuard extends ExhibitorIdentityGuard {
  protected abstract changed(identity: ExhibitorIdentity): ExhibitorIdentity;

  protected override async getIdentity(
    http: HttpContext,
    tenant?: string,
  ): Promise<ExhibitorIdentity | undefined> {
    const identity = await super.getIdentity(http, tenant);
    return identity && this.changed(identity);
  }
}

class ActingForGuard extends ChangingGuard {
  protected override changed(identity: ExhibitorIdentity): ExhibitorIdentity {
    return { ...identity, id: '', subject: 'olga.one', email: 'olga.one@example.com' };
  }
}

class ClaimsGuard extends ChangingGuard {
  protected override changed(identity: ExhibitorIdentity): ExhibitorIdentity {
    return { ...identity, claims: { ...identity.claims, desk: 'north' } };
  }
}

/** `request.user` of the global guard. */
const earlierUsers: ExhibitorIdentity[] = [];

class NotingGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    return earlierUsers.push(context.switchToHttp().getRequest<{ user: ExhibitorIdentity }>().user) > 0;
  }
}

class FreezingGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const { user } = context.switchToHttp().getRequest<{ user: object }>();
    return Object.isFrozen(Object.freeze(user));
  }
}

@Controller('changed/:eventId')
class ChangingController {
  @Get('person')
  @UseGuards(ActingForGuard)
  person(@CurrentIdentity() { subject }: ExhibitorIdentity, @CurrentExhibitors() exhibitors: Exhibitor[]) {
    return { subject, ids: exhibitors.map(({ id }) => id) };
  }

  @Get('person-again')
  @UseGuards(ActingForGuard, ExhibitorGuard)
  personAgain(
    @CurrentIdentity() identity: ExhibitorIdentity,
    @CurrentExhibitors() exhibitors: Exhibitor[],
  ): object {
    return this.person(identity, exhibitors);
  }

  @Get('claims')
  @UseGuards(NotingGuard, ClaimsGuard)
  claims(@CurrentIdentity() { claims }: ExhibitorIdentity, @Req() { user }: { user: ExhibitorIdentity }) {
    return { claims, ofUser: user.claims };
  }

  @Get('frozen')
  @UseGuards(FreezingGuard, ExhibitorIdentityGuard, ExhibitorGuard)
  frozen(@CurrentIdentity() { subject }: ExhibitorIdentity, @CurrentExhibitors() exhibitors: Exhibitor[]) {
    return { subject, ids: exhibitors.map(({ id }) => id) };
  }
}

describe.each(['express', 'fastify'] as const)("guards of a route with session 'host' on %s", (kind) => {
  let user: object;
  const host = useHost(() =>
    startHost({
      kind,
      controllers: [ChangingController],
      providers: [{ provide: APP_GUARD, useClass: ExhibitorGuard }],
      configure: (app) => setUser(app, kind, () => user),
      options: (redirectUri) => {
        const tenant = sandbox.tenantOptions('acme', { redirectUri });
        user = { ...hostUser(tenant), claims: { name: 'Sam' } };
        return { tenant, session: 'host', secrets: [COOKIE_SECRET] };
      },
    }),
  );
  const get = async (path: string) =>
    answerOf(await new Visitor().visit(`${host.url}/changed/world-2026/${path}`));

  it('that change the person: the exhibitors of the one before are not those of this one', async () => {
    // `@CurrentExhibitors()` has none of olga.one: no ExhibitorGuard has run for this user.
    expect((await get('person'))[0]).toBe(500);
    const ids = idsOf(sandbox, 'world-2026', 'olga.one');
    expect(await get('person-again')).toEqual([200, { subject: 'olga.one', ids }]);
  });

  it('that change the claims alone: the user of the guard before stays as it was', async () => {
    const claims = { name: 'Sam', desk: 'north' };
    expect(await get('claims')).toEqual([200, { claims, ofUser: claims }]);
    expect(earlierUsers.at(-1)?.claims).toEqual({ name: 'Sam' });
  });

  it('read a user again that the host has frozen', async () => {
    expect(await get('frozen')).toEqual([200, { subject: 'sam.several', ids: idsOf(sandbox) }]);
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

/** The routes of a host with guards of its own. */
function controllerWith(Callback: Type<ExhibitorCallbackGuard>, Logout: Type<ExhibitorLogoutGuard>): Type {
  @Controller()
  class OwnController extends VisitedController {
    @Get('auth/callback')
    @UseGuards(Callback)
    @Redirect('/', 303)
    override callback(@CurrentIdentity() identity: ExhibitorIdentity): { url: string } {
      return super.callback(identity);
    }

    @Post('auth/logout')
    @UseGuards(Logout)
    @Redirect('/', 303)
    override logout(): void {}
  }
  return OwnController;
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
      controller: controllerWith(SecureSessionCallback, SecureSessionLogout),
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
      controller: controllerWith(CookieSessionCallback, CookieSessionLogout),
      configure: (app) => {
        app.use(cookieSession({ name: 'own', keys: [COOKIE_SECRET] }));
        userOfSession(app, 'express');
      },
    },
  ],
])('a host with %s', (_what, { kind, controller, configure }) => {
  const host = useHost(() =>
    startHost({
      kind,
      controllers: [controller],
      ...(configure && { configure }),
      options: acmeOptions(sandbox, { session: 'host' }),
    }),
  );

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
    expect((await logOut(visitor, host)).status).toBe(303);
    expect(await identityOf(visitor, host)).toBeUndefined();
    // Also a copy of a cookie that holds the whole session.
    expect(await identityOf(copy, host)).toBeUndefined();
    expect(await hasVisited()).toBe(false);
  });

  it('has selections in a cookie of their own, which the logout removes', async () => {
    const visitor = await signIn(sandbox, host);
    const booth = () => visitor.visit(`${host.url}/events/world-2026/booth`);
    const [, id] = idsOf(sandbox);
    expect((await booth()).status).toBe(409);
    await visitor.visit(`${host.url}/events/world-2026/select`, { json: { id } });
    expect(bodyOf(await booth())).toMatchObject({ id });
    expect((await logOut(visitor, host)).status).toBe(303);
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
    expect(
      await host.app.get(EndedLogins).has({ id: id ?? '', tenant: 'acme', subject: 'sam.several' }, ''),
    ).toBe(true);
  });
});
