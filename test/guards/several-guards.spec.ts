import { afterEach, describe, expect, it, afterAll, beforeAll } from '@jest/globals';
import {
  Controller,
  Get,
  Inject,
  Module,
  Post,
  Req,
  Res,
  UseGuards,
  type Type,
  Injectable,
  type CanActivate,
  type ExecutionContext,
} from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import {
  CurrentEvent,
  CurrentExhibitor,
  CurrentExhibitors,
  CurrentIdentity,
  CurrentTenant,
  ExhibitorGuard,
  ExhibitorIdentityGuard,
  ExhibitorModule,
  ExhibitorSelection,
  type Exhibitor,
  type ExhibitorIdentity,
  type ExhibitorModuleOptions,
  type ExhibitorRequest,
} from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { type FrontDoor, withFrontDoor } from '../support/front-door.js';
import { BoothController } from '../support/booth.controller.js';
import { COOKIE_SECRET, createApp, setUser, startHost, type Host, type HostKind } from '../support/host.js';
import { freePort, startServer, type TestServer } from '../support/server.js';
import { Visitor } from '../support/visitor.js';
import { bodyOf, hostUser, signIn } from './signed-in.js';

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

@Controller()
class GuardedAgainController {
  constructor(@Inject(ExhibitorSelection) private readonly selection: ExhibitorSelection) {}

  @Get('many/:eventId')
  @UseGuards(ExhibitorIdentityGuard, ExhibitorGuard, ExhibitorIdentityGuard, ExhibitorGuard)
  many(
    @CurrentTenant() tenant: string,
    @CurrentEvent() eventId: string,
    @CurrentExhibitors() exhibitors: Exhibitor[],
    @CurrentExhibitor() exhibitor: Exhibitor,
  ): object {
    return { tenant, eventId, count: exhibitors.length, id: exhibitor['id'] };
  }

  @Post('events/:eventId/select-guarded-twice')
  @UseGuards(ExhibitorIdentityGuard, ExhibitorGuard)
  async select(
    @Req() request: object,
    @Res({ passthrough: true }) response: object,
    @CurrentExhibitors() [first]: Exhibitor[],
  ): Promise<object> {
    return this.selection.select({ request, response }, String(first?.['id']));
  }

  @Get('identity-last/:eventId')
  @UseGuards(ExhibitorGuard, ExhibitorIdentityGuard)
  identityLast(
    @CurrentIdentity() { subject }: ExhibitorIdentity,
    @CurrentTenant() tenant: string,
    @CurrentEvent() eventId: string,
    @CurrentExhibitors() exhibitors: Exhibitor[],
    @CurrentExhibitor() exhibitor: Exhibitor,
    @Req() { exhibitorContext }: ExhibitorRequest,
  ): object {
    return {
      subject,
      tenant,
      eventId,
      count: exhibitors.length,
      id: exhibitor['id'],
      all: Object.keys(exhibitorContext ?? {}),
    };
  }

  @Post('events/:eventId/select-after-identity')
  @UseGuards(ExhibitorGuard, ExhibitorIdentityGuard)
  async selectLast(
    @Req() request: object,
    @Res({ passthrough: true }) response: object,
    @CurrentExhibitors() [first]: Exhibitor[],
  ): Promise<object> {
    return this.selection.select({ request, response }, String(first?.['id']));
  }

  @Get('roles/:eventId')
  @UseGuards(ExhibitorIdentityGuard, RolesGuard, ExhibitorGuard, ExhibitorIdentityGuard)
  roles(@Req() { user }: { user: WithRoles }, @CurrentIdentity() identity: WithRoles): object {
    const isReadOnly = !Reflect.set(user.claims, 'name', 'Mallory') && !Reflect.set(user.claims, 'new', 1);
    return {
      subject: user.subject,
      before: user.before,
      roles: user.roles,
      ofIdentity: identity.roles,
      isReadOnly,
    };
  }

  @Get('who')
  @UseGuards(ExhibitorIdentityGuard)
  who(@CurrentIdentity() { subject }: ExhibitorIdentity, @CurrentTenant() tenant: string): object {
    return { subject, tenant };
  }
}

let sandbox: ExhibitorSandbox;
let door: FrontDoor;
withFrontDoor((opened) => ({ sandbox, door } = opened));

@Controller('own-exhibitors')
class MineController {
  @Get('events/:eventId')
  @UseGuards(ExhibitorIdentityGuard)
  mine(@CurrentExhibitors() exhibitors: Exhibitor[]): object {
    return { count: exhibitors.length };
  }
}

describe.each<HostKind>(['express', 'fastify'])('several guards of one request on %s', (kind) => {
  let host: Host | undefined;
  afterEach(async () => {
    await host?.close();
    host = undefined;
  });

  it('ask the functions of the host once each, and the service once', async () => {
    const asked: string[] = [];
    const answer = (name: string, value: string | undefined): Promise<string | undefined> => {
      asked.push(name);
      return Promise.resolve(value);
    };
    host = await startHost({
      kind,
      controllers: [BoothController, GuardedAgainController],
      options: (redirectUri) => ({
        tenants: { acme: sandbox.tenantOptions('acme', { redirectUri }) },
        resolveTenant: () => answer('tenant', 'acme'),
        resolveEvent: () => answer('event', 'world-2026'),
        resolveExhibitor: () => answer('exhibitor', undefined),
        secrets: [COOKIE_SECRET],
      }),
    });
    const visitor = await signIn(sandbox, host, 'olga.one');
    asked.length = 0;
    sandbox.clearRequests();
    const reply = await visitor.visit(`${host.url}/many/of-the-route`);
    expect(bodyOf(reply)).toMatchObject({ tenant: 'acme', eventId: 'world-2026', count: 1 });
    expect(reply.headers.get('cache-control')).toBe('private, no-store');
    const byExhibitorGuard = ['tenant', 'event', 'exhibitor'];
    expect(asked).toEqual(['tenant', ...byExhibitorGuard, 'tenant', ...byExhibitorGuard]);
    expect(sandbox.requests.filter(({ operation }) => operation === 'lookup')).toHaveLength(1);
  });

  it.each(['host', 'cookie'] as const)(
    "with session ['%s', 'bearer'] take a user with a token for no user of the browser",
    async (browser) => {
      host = await startHost({
        kind,
        controllers: [GuardedAgainController],
        options: (redirectUri) => {
          const tenant = door.tenantOptions('acme', redirectUri);
          return {
            // The token names the client of the login, so that its identity fits in every other respect.
            tenant: { ...tenant, login: { ...tenant.login, authorizedParties: ['acme-web'] } },
            session: [browser, 'bearer'],
            secrets: [COOKIE_SECRET],
          };
        },
      });
      const authorization = `Bearer ${await door.mint({ azp: 'acme-web' })}`;
      const reply = await fetch(`${host.url}/events/world-2026/select-guarded-twice`, {
        method: 'POST',
        headers: { authorization },
      });
      expect([reply.status, await reply.text()]).toEqual([
        400,
        expect.stringContaining("a selection cannot be stored with session 'bearer'"),
      ]);
    },
  );

  it.each(['cookie', 'host', 'bearer'] as const)(
    "leave request.user to the request: a host may add members, which no other request has (session: '%s')",
    async (session) => {
      let user: object | undefined;
      host = await startHost({
        kind,
        controllers: [BoothController, GuardedAgainController],
        configure: (app) =>
          session === 'host' && setUser(app, kind, () => ({ ...user, claims: { name: 'Sam', nested: {} } })),
        options: (redirectUri) => {
          user = hostUser(sandbox.tenantOptions('acme', { redirectUri }));
          const tenant = door.tenantOptions('acme', redirectUri);
          return {
            tenant: session === 'bearer' ? tenant : sandbox.tenantOptions('acme', { redirectUri }),
            session,
            secrets: [COOKIE_SECRET],
          };
        },
      });
      const headers: Record<string, string> = {};
      const visitor = session === 'cookie' ? await signIn(sandbox, host, 'olga.one') : new Visitor();
      if (session === 'bearer') {
        headers['authorization'] = `Bearer ${await door.mint()}`;
      }
      for (let visit = 0; visit < 3; visit += 1) {
        const reply = await visitor.visit(`${host.url}/roles/world-2026`, { headers });
        expect([reply.status, bodyOf(reply)]).toEqual([
          200,
          {
            subject: expect.any(String),
            before: [],
            roles: ['editor'],
            ofIdentity: ['editor'],
            isReadOnly: true,
          },
        ]);
      }
    },
  );

  it('all run: a global ExhibitorGuard also where ExhibitorIdentityGuard stands on the route', async () => {
    host = await startHost({
      kind,
      controllers: [BoothController, MineController],
      providers: [{ provide: APP_GUARD, useClass: ExhibitorGuard }],
      options: (redirectUri) => ({
        tenant: sandbox.tenantOptions('acme', { redirectUri }),
        secrets: [COOKIE_SECRET],
      }),
    });
    const [olga, nora] = [await signIn(sandbox, host, 'olga.one'), await signIn(sandbox, host, 'nora.none')];
    const path = `${host.url}/own-exhibitors/events/world-2026`;
    expect(bodyOf(await olga.visit(path))).toEqual({ count: 1 });
    expect((await nora.visit(path)).status).toBe(403);
  });

  it('leave both results, whichever runs last', async () => {
    host = await startHost({
      kind,
      controllers: [BoothController, GuardedAgainController],
      options: (redirectUri) => ({
        tenant: sandbox.tenantOptions('acme', { redirectUri }),
        secrets: [COOKIE_SECRET],
      }),
    });
    const visitor = await signIn(sandbox, host, 'olga.one');
    const reply = await visitor.visit(`${host.url}/identity-last/world-2026`);
    expect([reply.status, bodyOf(reply)]).toEqual([
      200,
      {
        subject: 'olga.one',
        tenant: 'default',
        eventId: 'world-2026',
        count: 1,
        id: expect.any(String),
        all: expect.arrayContaining([
          'identity',
          'tenant',
          'eventId',
          'exhibitors',
          'exhibitorId',
          'exhibitor',
        ]),
      },
    ]);
    const select = `${host.url}/events/world-2026/select-after-identity`;
    expect((await visitor.visit(select, { method: 'POST' })).status).toBe(201);
  });

  describe('of two modules', () => {
    /** An application whose first module guards every route, and whose second module has the routes. */
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
      @Module({ imports: [ExhibitorModule.forRoot(second)], controllers: [GuardedAgainController] })
      class SecondModule {}
      @Module({ imports: [FirstModule, SecondModule] })
      class AppModule {}
      const app = await createApp(kind, AppModule as Type);
      if (user !== undefined) {
        setUser(app, kind, () => user);
      }
      const port = await freePort();
      await app.listen(port, '127.0.0.1');
      const url = `http://127.0.0.1:${port}`;
      host = { app, url, callback: url, close: () => app.close() };
      return url;
    }

    it('share no user: each reads its own session', async () => {
      const tenant = door.tenantOptions('acme', 'http://127.0.0.1:3000/auth/callback');
      const login = { ...tenant.login, authorizedParties: ['acme-web'] };
      const url = await startSideBySide(
        { tenant: { ...tenant, login }, session: 'bearer' },
        { tenant, session: 'host', secrets: [COOKIE_SECRET] },
      );
      const headers = { authorization: `Bearer ${await door.mint({ azp: 'acme-web' })}` };
      const reply = await fetch(`${url}/who`, { headers });
      expect([reply.status, await reply.json()]).toEqual([
        401,
        expect.objectContaining({ code: 'unauthenticated' }),
      ]);
    });

    it('share no answer of a function of the host', async () => {
      const tenants = {
        acme: sandbox.tenantOptions('acme'),
        globex: sandbox.tenantOptions('globex'),
      };
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

@Injectable()
class HostGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<{ exhibitorContext: object }>();
    request.exhibitorContext = { ...request.exhibitorContext, eventId: 'of-the-host' };
    return true;
  }
}

@Controller()
class MembersController {
  @Get('members/:eventId')
  @UseGuards(ExhibitorGuard)
  members(@Req() request: ExhibitorRequest): object {
    const { exhibitors, exhibitorContext } = request;
    return {
      count: exhibitors?.length,
      same: exhibitors === exhibitorContext?.exhibitors,
      eventId: exhibitorContext?.eventId,
    };
  }

  @Get('unguarded')
  unguarded(@Req() request: ExhibitorRequest): object {
    return Object.fromEntries(Object.entries(request).filter(([name]) => name.startsWith('exhibitor')));
  }

  @Get('replaced/:eventId')
  @UseGuards(ExhibitorGuard, HostGuard)
  replaced(@CurrentEvent() eventId: string, @Req() { exhibitorContext }: ExhibitorRequest): string[] {
    return [eventId, String(exhibitorContext?.eventId)];
  }

  @Get('guarded-again/:eventId')
  @UseGuards(ExhibitorGuard, HostGuard, ExhibitorGuard)
  guardedAgain(@CurrentEvent() eventId: string, @Req() { exhibitorContext }: ExhibitorRequest): string[] {
    return [eventId, String(exhibitorContext?.eventId)];
  }
}

/** A host at which somebody is logged in. */
function startMembersHost(kind: HostKind): Promise<Host> {
  let user: object | undefined;
  return startHost({
    kind,
    controllers: [MembersController],
    configure: (app) => setUser(app, kind, () => user),
    options: (redirectUri) => {
      const tenant = sandbox.tenantOptions('acme', { redirectUri });
      user = hostUser(tenant);
      return { tenant, session: 'host', secrets: [COOKIE_SECRET] };
    },
  });
}

async function get({ url }: { url: string }, path: string): Promise<unknown> {
  const reply = await fetch(`${url}${path}`);
  return reply.json();
}

const MEMBERS = { count: 3, same: true, eventId: 'world-2026' };

describe.each(['express', 'fastify'] as const)('the members of a request on %s', (kind) => {
  let host: Host;
  beforeAll(async () => {
    host = await startMembersHost(kind);
  });
  afterAll(() => host?.close());

  it('are set by the guard', async () => {
    expect(await get(host, '/members/world-2026')).toEqual(MEMBERS);
  });

  it('are absent without a guard', async () => {
    expect(await get(host, '/unguarded')).toEqual({});
  });

  it('can be replaced by a guard of the host, and again by ExhibitorGuard', async () => {
    expect(await get(host, '/replaced/world-2026')).toEqual(['of-the-host', 'of-the-host']);
    expect(await get(host, '/guarded-again/world-2026')).toEqual(['world-2026', 'world-2026']);
  });
});

describe('on Express', () => {
  let host: Host | undefined;
  let front: TestServer | undefined;
  afterEach(async () => {
    await front?.stop();
    await host?.close();
  });

  it('a server of the host may have set them: the guard replaces them, and they stay without it', async () => {
    host = await startMembersHost('express');
    const express = host.app.getHttpAdapter().getInstance();
    const ofTheHost = { exhibitors: [], exhibitorContext: { tenant: 'of-the-host' } };
    front = await startServer((request, response) => express(Object.assign(request, ofTheHost), response));
    expect(await get(front, '/members/world-2026')).toEqual(MEMBERS);
    expect(await get(front, '/unguarded')).toEqual(ofTheHost);
  });
});
