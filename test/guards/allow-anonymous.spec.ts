import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import {
  applyDecorators,
  Body,
  Controller,
  Get,
  Inject,
  Injectable,
  Param,
  Post,
  Req,
  Res,
  UseGuards,
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
  ExhibitorSelection,
  type Exhibitor,
  type ExhibitorIdentity,
  type HttpContext,
} from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { type FrontDoor, withFrontDoor } from '../support/front-door.js';
import { MemoryStore } from '../store/memory-store.js';
import { BoothController } from '../support/booth.controller.js';
import { clockOf } from '../support/clock.js';
import { COOKIE_SECRET, startHost, type Host, type HostKind } from '../support/host.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { bodyOf, signIn } from './signed-in.js';

/** A controller that cannot be decorated, as of another package. */
@Controller('metrics')
class MetricsController {
  @Get()
  metrics(): string {
    return 'up 1';
  }
}

/** Guards every route of the host. */
@Injectable()
class SiteGuard extends ExhibitorGuard {
  protected override async allowsAnonymous(context: ExecutionContext): Promise<boolean> {
    return context.getClass() === MetricsController || super.allowsAnonymous(context);
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
    return {
      subject: identity?.subject,
      id: exhibitor?.['id'],
      count: exhibitors.length,
      tenant,
      event,
      sameOnRequest,
    };
  }

  @Get('booths/:exhibitorId')
  booth(@CurrentExhibitor() exhibitor: Exhibitor | undefined, @Param('exhibitorId') id: string): object {
    return { id, own: exhibitor?.['id'] };
  }

  @Post('select')
  async select(
    @Req() request: object,
    @Res({ passthrough: true }) response: object,
    @Body('id') id: string,
  ): Promise<object> {
    return this.selection.select({ request, response }, id);
  }

  @Get('closed')
  @AllowAnonymous(false)
  closed(): void {}

  @Get('guarded')
  @UseGuards(ExhibitorIdentityGuard)
  guarded(): void {}

  @Get('guarded-again')
  @UseGuards(SiteGuard)
  guardedAgain(): void {}

  @Get('opened')
  @AllowAnonymous()
  @UseGuards(ExhibitorIdentityGuard)
  opened(@CurrentIdentity() identity?: ExhibitorIdentity): object {
    return { subject: identity?.subject };
  }
}

@Controller('members')
class MembersController {
  @Get()
  members(): string {
    return 'members only';
  }

  @Get('news')
  @AllowAnonymous()
  news(): string {
    return 'for all';
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

@Controller('own')
class OwnRoutesController {
  @Get('subclass')
  @UseGuards(OwnLoginGuard)
  subclass(): void {}

  @Get('instance')
  @UseGuards(LOGOUT_GUARD)
  instance(): void {}

  @Get('applied')
  @applyDecorators(UseGuards(OwnLoginGuard), Get('applied'))
  applied(): void {}

  @Get('closed')
  @UseGuards(LOGOUT_GUARD)
  @AllowAnonymous(false)
  closed(): void {}

  @Get('guarded')
  @UseGuards(SiteGuard, LOGOUT_GUARD)
  guarded(): void {}
}

@Controller('of-controller')
@UseGuards(LOGOUT_GUARD)
class OwnController {
  @Get()
  all(): void {}

  @Get('guarded')
  @UseGuards(ExhibitorIdentityGuard)
  guarded(): void {}
}

@Controller('guarded-controller')
@UseGuards(SiteGuard)
class GuardedController {
  @Get()
  @UseGuards(LOGOUT_GUARD)
  closed(): void {}

  @Get('open')
  @AllowAnonymous()
  open(): void {}
}

let sandbox: ExhibitorSandbox;
let door: FrontDoor;
withFrontDoor((opened) => ({ sandbox, door } = opened));
afterEach(() => sandbox?.clearFaults());

const HOSTS: [kind: HostKind, session: 'cookie' | 'host' | 'bearer'][] = [
  ['express', 'cookie'],
  ['fastify', 'cookie'],
  ['express + express-session', 'host'],
  ['fastify + @fastify/session', 'host'],
  ['express', 'bearer'],
  ['fastify', 'bearer'],
];

/** Sends requests of one person. */
type Ask = (path: string, headers?: Record<string, string>) => Promise<Reply>;

describe.each(HOSTS)("behind a global guard on %s, with session '%s'", (kind, session) => {
  const store = new MemoryStore();
  let host: Host;

  beforeAll(async () => {
    // The other kind of global guard where the host has a session.
    const isBound = session === 'host';
    host = await startHost({
      kind,
      controllers: [
        BoothController,
        PublicController,
        MembersController,
        MetricsController,
        OwnRoutesController,
        OwnController,
        GuardedController,
      ],
      providers: isBound ? [] : [{ provide: APP_GUARD, useClass: SiteGuard }],
      configure: (app) =>
        isBound && app.useGlobalGuards(new SiteGuard(app.get(ExhibitorGuardServices, { strict: false }))),
      options: (redirectUri) => ({
        tenants: {
          acme:
            session === 'bearer'
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
    });
  });
  afterAll(() => host?.close());

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
    session === 'bearer'
      ? withToken(await door.mint({ sub: person, email: `${person}@example.com` }))
      : asVisitor(await signIn(sandbox, host, person));

  const open = { count: 0, tenant: 'acme', sameOnRequest: true };

  it('lets nobody pass where it is allowed, and asks neither service nor store', async () => {
    sandbox.clearRequests();
    store.calls = 0;
    const garbage = new Visitor();
    garbage.cookies('127.0.0.1').set('exhibitor-identity', 'garbage').set('connect.sid', 'garbage');
    for (const ask of [nobody, asVisitor(garbage), withToken('garbage')]) {
      const reply = await ask('/public');
      expect([reply.status, bodyOf(reply)]).toEqual([200, open]);
      expect(reply.headers.get('cache-control')).toBe('private, no-store');
      expect(reply.headers.get('www-authenticate')).toBeNull();
      expect(bodyOf(await ask('/public?eventId=world-2026'))).toEqual({ ...open, event: 'world-2026' });
      expect(bodyOf(await ask('/public/opened'))).toEqual({});
      expect(bodyOf(await ask('/public/booths/any'))).toEqual({ id: 'any' });
    }
    expect((await nobody('/members/news')).text).toBe('for all');
    expect((await nobody('/metrics')).text).toBe('up 1');
    expect((await nobody('/guarded-controller/open')).status).toBe(200);
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
    if (session === 'bearer') {
      const past = Math.floor(Date.now() / 1000) - 600;
      expect(await seen(withToken(await door.mint({ exp: past })))).toBeUndefined();
      return;
    }
    const visitor = await signIn(sandbox, host);
    const cookies = new Map(visitor.cookies('127.0.0.1'));
    expect(await seen(asVisitor(visitor))).toBe('sam.several');
    const clock = clockOf(host.app);
    clock.skip(9 * 3_600_000);
    expect(await seen(asVisitor(visitor))).toBeUndefined();
    clock.back();
    await visitor.visit(`${host.url}/auth/logout`, { method: 'POST' });
    const copy = new Visitor();
    for (const [name, value] of cookies) {
      copy.cookies('127.0.0.1').set(name, value);
    }
    expect(await seen(asVisitor(copy))).toBeUndefined();
  });

  it('requires neither event nor exhibitor of a user', async () => {
    const olga = await enter('olga.one');
    const [own] = sandbox
      .exhibitors('world-2026', 'acme')
      .filter(({ contactEmails }) => contactEmails.includes('olga.one@example.com'));
    const user = { ...open, subject: 'olga.one' };
    expect(bodyOf(await olga('/public'))).toEqual(user);
    const atEvent = await olga('/public?eventId=world-2026');
    expect(bodyOf(atEvent)).toEqual({ ...user, event: 'world-2026', count: 1, id: own?.id });
    const other = await olga('/public/booths/of-others?eventId=world-2026');
    expect([other.status, bodyOf(other)]).toEqual([200, { id: 'of-others' }]);
    const nora = await enter('nora.none');
    expect(bodyOf(await nora('/public?eventId=world-2026'))).toMatchObject({
      subject: 'nora.none',
      count: 0,
    });
    const sam = await enter('sam.several');
    const several = bodyOf(await sam('/public?eventId=world-2026'));
    expect(several).toMatchObject({ subject: 'sam.several' });
    expect(several['id']).toBeUndefined();
  });

  it('still answers an unknown tenant, a wrong event and a failing lookup', async () => {
    const unknown = await nobody('/public?tenant=none');
    expect([unknown.status, bodyOf(unknown)['code']]).toEqual([404, 'unknown_tenant']);
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
    expect([reply.status, bodyOf(reply)['code']]).toEqual([401, 'unauthenticated']);
    expect(reply.headers.get('www-authenticate')).toBe(session === 'bearer' ? 'Bearer' : null);
  });

  it('refuses the selection of nobody, and that of a user without an event', async () => {
    const select = (visitor: Visitor, headers: Record<string, string>): Promise<Reply> =>
      visitor.visit(`${host.url}/public/select`, { form: { id: 'any' }, headers });
    const byNobody = await select(new Visitor(), {});
    expect([byNobody.status, bodyOf(byNobody)['code']]).toEqual([401, 'unauthenticated']);
    const isBearer = session === 'bearer';
    const byUser = await select(
      isBearer ? new Visitor() : await signIn(sandbox, host),
      isBearer ? { authorization: `Bearer ${await door.mint()}` } : {},
    );
    expect([byUser.status, bodyOf(byUser)['code']]).toEqual([400, 'event_required']);
  });

  it('exempts the routes of logins and logouts', async () => {
    const statusOf = async (path: string, method = 'GET'): Promise<number> =>
      (await new Visitor().visit(`${host.url}${path}`, { method })).status;
    expect(await statusOf('/auth/logout', 'POST')).toBe(303);
    expect(await statusOf('/auth/backchannel-logout', 'POST')).toBe(400);
    const callback = await nobody('/auth/callback');
    expect([callback.status, bodyOf(callback)['code']]).toEqual([401, 'login_failed']);
    expect(await statusOf('/own/instance')).toBe(200);
    expect(await statusOf('/of-controller')).toBe(200);
    if (session !== 'bearer') {
      for (const path of ['/auth/login', '/own/subclass', '/own/applied']) {
        expect(await statusOf(path)).toBe(302);
      }
      // A failing lookup does not stand in the way of a user either.
      const visitor = await signIn(sandbox, host, 'sam.several', { eventId: 'regional-2026' });
      sandbox.failNext('lookup', { kind: 'status', status: 503 });
      expect((await visitor.visit(`${host.url}/auth/logout`, { method: 'POST' })).status).toBe(303);
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
    const refused: Record<string, string>[] = [
      {},
      { accept: 'application/json' },
      { ...html, 'sec-fetch-mode': 'cors', 'sec-fetch-dest': 'empty' },
      { ...html, 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'image' },
    ];
    for (const headers of refused) {
      expect((await nobody(page, headers)).status).toBe(401);
    }
    const form = await new Visitor().visit(`${host.url}/events/world-2026/select`, {
      form: {},
      headers: html,
    });
    expect(form.status).toBe(401);
    if (session !== 'bearer') {
      sandbox.signInAs('olga.one');
      const journey = await new Visitor().follow(`${host.url}/events/world-2026/mine`, undefined, html);
      expect([journey.status, bodyOf<unknown[]>(journey).length]).toEqual([200, 1]);
    }
  });
});
