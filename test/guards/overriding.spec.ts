import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  ConsoleLogger,
  Controller,
  ForbiddenException,
  Get,
  Inject,
  Injectable,
  Module,
  UseGuards,
  type ExecutionContext,
  type INestApplication,
  Optional,
  type Type,
} from '@nestjs/common';
import {
  CurrentEvent,
  CurrentExhibitor,
  CurrentExhibitors,
  CurrentIdentity,
  CurrentTenant,
  ExhibitorCallbackGuard,
  ExhibitorGuard,
  ExhibitorIdentityGuard,
  ExhibitorLoginGuard,
  ExhibitorModule,
  type Exhibitor,
  type ExhibitorIdentity,
  type ExhibitorRequest,
  type HttpContext,
  type SessionState,
  ExhibitorBackChannelLogoutGuard,
  ExhibitorGuardServices,
  ExhibitorLogoutGuard,
  ExhibitorSelection,
} from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { BoothController } from '../support/booth.controller.js';
import { COOKIE_SECRET, createApp, startHost, type Host } from '../support/host.js';
import { Visitor } from '../support/visitor.js';
import { bodyOf, signIn } from './signed-in.js';
import { freePort } from '../support/server.js';
import { startSandbox } from '../support/sandbox.js';

/** A service of the host that its guards inject. */
@Injectable()
class AccessLog {
  readonly lines: string[] = [];
}

@Injectable()
class PortalGuard extends ExhibitorGuard {
  @Inject(AccessLog) private readonly log!: AccessLog;

  protected override async getEvent(
    http: HttpContext,
    context: ExecutionContext,
    state: SessionState,
  ): Promise<string | undefined> {
    const hall = http.request.query['hall'];
    if (hall === 'big') {
      return 'world-2026';
    }
    return super.getEvent(http, context, state);
  }

  protected override onNoExhibitor(state: SessionState, eventId: string): void {
    this.log.lines.push(`${state.identity.subject} is nobody at ${eventId}`);
  }

  protected override onNoEvent(): never {
    throw new ForbiddenException('which event?');
  }

  protected override onNoIdentity(http: HttpContext): Promise<never> {
    http.redirect('/auth/login');
    return new Promise(() => undefined);
  }
}

/** A guest, for pages that need no login. */
@Injectable()
class GuestGuard extends ExhibitorIdentityGuard {
  protected override getIdentity(http: HttpContext, tenant: string | undefined) {
    this.seen.push(`${http.request.method} ${http.request.url}`);
    return super.getIdentity(http, tenant);
  }

  protected override onNoIdentity(): never {
    throw new ForbiddenException('members only');
  }

  readonly seen: string[] = [];
}

/** A host whose request is wrapped, as behind a gateway. */
@Injectable()
class WrappedRequestGuard extends ExhibitorIdentityGuard {
  protected override async getRequest(context: ExecutionContext): Promise<ExhibitorRequest> {
    const request = await super.getRequest(context);
    const { 'x-forwarded-cookie': forwarded, ...others } = request.headers;
    request.headers = forwarded === undefined ? others : { ...others, cookie: forwarded };
    return request;
  }
}

/** A host that finds the exhibitors of a person itself. */
@Injectable()
class OwnRecordsGuard extends ExhibitorGuard {
  protected override getExhibitors(_state: SessionState, eventId: string): readonly unknown[] {
    return [{ id: `of ${eventId}` }];
  }
}

/** A host that lets some requests pass without a user. */
@Injectable()
class DoorGuard extends ExhibitorIdentityGuard {
  override canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    const { query } = context.switchToHttp().getRequest<ExhibitorRequest>();
    return query['open'] === 'yes' || super.canActivate(context);
  }
}

@Controller()
class PortalController {
  @Get('door')
  @UseGuards(DoorGuard)
  door(): string {
    return 'inside';
  }

  @Get('records')
  @UseGuards(OwnRecordsGuard)
  records(@CurrentExhibitors() exhibitors: Exhibitor[]): Exhibitor[] {
    return exhibitors;
  }

  @Get('portal')
  @UseGuards(PortalGuard)
  portal(@CurrentExhibitors() exhibitors: Exhibitor[], @CurrentEvent() eventId: string): object {
    return { eventId, count: exhibitors.length };
  }

  @Get('members')
  @UseGuards(GuestGuard)
  members(@CurrentIdentity() identity: ExhibitorIdentity): string {
    return identity.subject;
  }

  @Get('wrapped')
  @UseGuards(WrappedRequestGuard)
  wrapped(@CurrentTenant() tenant: string): string {
    return tenant;
  }
}

/** Each decorator without its guard, which is a mistake of a host. */
@Controller('mistakes')
class MistakenController {
  @Get('CurrentExhibitors')
  exhibitors(@CurrentExhibitors() given: unknown): unknown {
    return given;
  }

  @Get('CurrentExhibitor')
  exhibitor(@CurrentExhibitor() given: unknown): unknown {
    return given;
  }

  @Get('CurrentIdentity')
  identity(@CurrentIdentity() given: unknown): unknown {
    return given;
  }

  @Get('CurrentEvent')
  event(@CurrentEvent() given: unknown): unknown {
    return given;
  }

  @Get('CurrentTenant')
  tenant(@CurrentTenant() given: unknown): unknown {
    return given;
  }

  @Get('identity-guard/CurrentExhibitors')
  @UseGuards(ExhibitorIdentityGuard)
  exhibitorsOfNoEvent(@CurrentExhibitors() given: unknown): unknown {
    return given;
  }

  @Get('identity-guard/CurrentExhibitor')
  @UseGuards(ExhibitorIdentityGuard)
  exhibitorOfNoEvent(@CurrentExhibitor() given: unknown): unknown {
    return given;
  }

  @Get('identity-guard/CurrentEvent')
  @UseGuards(ExhibitorIdentityGuard)
  eventOfNone(@CurrentEvent() given: unknown): unknown {
    return given;
  }
}

@Controller('callback')
class CallbackController {
  @Get('login')
  @UseGuards(ExhibitorLoginGuard)
  login(): void {}

  @Get('back')
  @UseGuards(ExhibitorCallbackGuard)
  back(@CurrentEvent() eventId: string | undefined, @CurrentTenant() tenant: string): object {
    return { eventId: eventId ?? 'none', tenant };
  }
}

/** Errors in the log of Nest. */
class ErrorLog extends ConsoleLogger {
  readonly errors: string[] = [];
  override error(message: unknown): void {
    this.errors.push(message instanceof Error ? message.message : String(message));
  }
}

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());

describe.each(['express', 'fastify'] as const)('guards in a module of the host on %s', (kind) => {
  let app: INestApplication;
  let host: { url: string };
  const log = new ErrorLog({ logLevels: ['error'] });

  beforeAll(async () => {
    const port = await freePort();
    host = { url: `http://127.0.0.1:${port}` };
    const redirectUri = `${host.url}/auth/callback`;

    // Not global: the guards get only what this module re-exports.
    @Module({
      imports: [
        ExhibitorModule.forRoot({
          tenant: sandbox.tenantOptions('acme', { redirectUri }),
          secrets: [COOKIE_SECRET],
          logoutCheck: { provider: true },
        }),
      ],
      exports: [ExhibitorModule],
    })
    class ServiceModule {}

    @Module({
      imports: [ServiceModule],
      controllers: [BoothController, PortalController, MistakenController, CallbackController],
      providers: [AccessLog, PortalGuard],
    })
    class PortalModule {}

    @Module({ imports: [PortalModule] })
    class AppModule {}

    app = await createApp(kind, AppModule);
    app.useLogger(log);
    await app.listen(port, '127.0.0.1');
  });
  afterAll(() => app?.close());

  it('work where the module is imported, not global', async () => {
    const visitor = await signIn(sandbox, host);
    expect((await visitor.visit(`${host.url}/events/world-2026/mine`)).status).toBe(200);
  });

  it('let a subclass decide without waiting', async () => {
    const visitor = new Visitor();
    expect((await visitor.visit(`${host.url}/door?open=yes`)).status).toBe(200);
    expect((await visitor.visit(`${host.url}/door`)).status).toBe(401);
  });

  it('let a subclass choose the event, and admit people without an exhibitor', async () => {
    const visitor = await signIn(sandbox, host, 'nora.none', { eventId: 'regional-2026' });
    expect(bodyOf(await visitor.visit(`${host.url}/portal`))).toEqual({ eventId: 'regional-2026', count: 0 });
    expect(bodyOf(await visitor.visit(`${host.url}/portal?hall=big`))).toEqual({
      eventId: 'world-2026',
      count: 0,
    });
    expect(app.get(AccessLog).lines.splice(0)).toEqual([
      'nora.none is nobody at regional-2026',
      'nora.none is nobody at world-2026',
    ]);
  });

  it('let a subclass handle a request without an event', async () => {
    const visitor = await signIn(sandbox, host, 'olga.one');
    const reply = await visitor.visit(`${host.url}/portal`);
    expect(reply.status).toBe(403);
    expect(bodyOf(reply)['message']).toBe('which event?');
  });

  it('let a subclass find the exhibitors itself, for an event id that can be one', async () => {
    const visitor = await signIn(sandbox, host, 'nora.none');
    const own = await visitor.visit(`${host.url}/records?eventId=own`);
    expect(bodyOf(own)).toEqual([{ id: 'of own' }]);
    for (const eventId of ['%00', '..', 'x'.repeat(129)]) {
      const refused = await visitor.visit(`${host.url}/records?eventId=${eventId}`);
      expect(refused.status).toBe(400);
      expect(bodyOf(refused)).toMatchObject({ code: 'invalid_argument' });
    }
  });

  it('let a subclass redirect to the login', async () => {
    const reply = await new Visitor().visit(`${host.url}/portal`);
    expect(reply.status).toBe(302);
    expect(reply.location).toBe(`${host.url}/auth/login`);
  });

  it('let a subclass throw an exception of the host', async () => {
    const refused = await new Visitor().visit(`${host.url}/members`);
    expect(refused.status).toBe(403);
    expect(bodyOf(refused)['message']).toBe('members only');
    const visitor = await signIn(sandbox, host, 'olga.one');
    expect((await visitor.visit(`${host.url}/members`)).text).toBe('olga.one');
  });

  it('let a subclass return the request', async () => {
    const visitor = await signIn(sandbox, host);
    const sealed = visitor.cookies('127.0.0.1').get('exhibitor-identity');
    const wrapped = await fetch(`${host.url}/wrapped`, {
      headers: { 'x-forwarded-cookie': `exhibitor-identity=${sealed}` },
    });
    expect([wrapped.status, await wrapped.text()]).toEqual([200, 'default']);
    expect((await fetch(`${host.url}/wrapped`)).status).toBe(401);
  });

  it('provide the event of the login at the callback, where there is one', async () => {
    const back = `${host.url}/callback/back`;
    const port = await freePort();
    const other = { url: `http://127.0.0.1:${port}` };

    @Module({
      imports: [
        ExhibitorModule.forRoot({
          tenant: sandbox.tenantOptions('acme', { redirectUri: back.replace(host.url, other.url) }),
          secrets: [COOKIE_SECRET],
          logoutCheck: { provider: true },
        }),
      ],
      controllers: [CallbackController],
    })
    class CallbackModule {}

    const second = await createApp(kind, CallbackModule);
    await second.listen(port, '127.0.0.1');
    try {
      sandbox.signInAs('olga.one');
      const login = async (query: string) =>
        bodyOf(await new Visitor().follow(`${other.url}/callback/login${query}`));
      expect(await login('?eventId=world-2026')).toEqual({ eventId: 'world-2026', tenant: 'default' });
      expect(await login('')).toEqual({ eventId: 'none', tenant: 'default' });
    } finally {
      await second.close();
    }
  });

  it.each(['CurrentExhibitors', 'CurrentExhibitor', 'CurrentIdentity', 'CurrentEvent', 'CurrentTenant'])(
    'are required by @%s, which is logged and not shown to the visitor',
    async (decorator) => {
      log.errors.length = 0;
      const reply = await new Visitor().visit(`${host.url}/mistakes/${decorator}`);
      expect(reply.status).toBe(500);
      expect(bodyOf(reply)).toEqual({ statusCode: 500, message: 'Internal server error' });
      expect(log.errors.join('\n')).toMatch(
        new RegExp(`@${decorator}\\(\\) needs Exhibitor(Identity)?Guard on the route`),
      );
    },
  );

  it.each(['CurrentExhibitors', 'CurrentExhibitor', 'CurrentEvent'])(
    'for identities are not enough for @%s',
    async (decorator) => {
      log.errors.length = 0;
      const visitor = await signIn(sandbox, host, 'olga.one', { eventId: 'world-2026' });
      const reply = await visitor.visit(`${host.url}/mistakes/identity-guard/${decorator}`);
      expect(reply.status).toBe(500);
      expect(log.errors.join('\n')).toContain(`@${decorator}() needs ExhibitorGuard on the route`);
    },
  );
});

@Injectable()
class AuditLog {
  readonly lines: string[] = [];
}

/** A guard with a constructor of its own, whose steps are all asynchronous. */
@Injectable()
class AuditedGuard extends ExhibitorGuard {
  constructor(
    @Optional() @Inject(ExhibitorGuardServices) services: ExhibitorGuardServices,
    @Inject(AuditLog) private readonly audit: AuditLog,
  ) {
    super(services);
  }

  protected override async getTenant(): Promise<string> {
    return 'default';
  }

  protected override async getIdentity(
    http: HttpContext,
    tenantKey: string | undefined,
  ): Promise<SessionState | undefined> {
    const session = await super.getIdentity(http, tenantKey);
    this.audit.lines.push(`${session?.identity.subject ?? 'nobody'} at ${tenantKey}`);
    return session;
  }

  protected override async onNoEvent(): Promise<string> {
    return 'world-2026';
  }

  protected override async getExhibitors(
    session: SessionState,
    eventId: string,
  ): Promise<readonly unknown[]> {
    const exhibitors = await super.getExhibitors(session, eventId);
    return exhibitors.slice(0, 1);
  }

  protected override async onNoExhibitor(session: SessionState, eventId: string): Promise<void> {
    this.audit.lines.push(`${session.identity.subject} has none at ${eventId}`);
  }
}

/** A guard of a host whose members have the names that a guard of this package might use. */
@Injectable()
class NamesakeGuard extends ExhibitorIdentityGuard {
  readonly services = 'of the host';

  setHeaders(): string {
    return this.services;
  }

  async run(): Promise<string> {
    return this.setHeaders();
  }
}

@Controller()
class AuditedController {
  @Get('namesake')
  @UseGuards(NamesakeGuard)
  namesake(): string {
    return 'let in';
  }

  @Get('audited')
  @UseGuards(AuditedGuard)
  audited(@CurrentExhibitors() exhibitors: Exhibitor[], @CurrentEvent() eventId: string): object {
    return { eventId, count: exhibitors.length };
  }
}

/** A guard without any service. */
class OpenGuard {
  canActivate(): boolean {
    return true;
  }
}

describe.each(['express', 'fastify'] as const)('a guard with a constructor of its own on %s', (kind) => {
  let host: Host;
  beforeAll(async () => {
    host = await startHost({
      kind,
      controllers: [BoothController, AuditedController],
      providers: [AuditLog],
      options: (redirectUri) => ({
        tenant: sandbox.tenantOptions('acme', { redirectUri }),
        secrets: [COOKIE_SECRET],
      }),
    });
  });
  afterAll(() => host?.close());

  it('passes the services on, and may answer promises in every step', async () => {
    expect((await new Visitor().visit(`${host.url}/audited`)).status).toBe(401);
    const visitor = await signIn(sandbox, host);
    const reply = await visitor.visit(`${host.url}/audited`);
    expect(bodyOf(reply)).toEqual({ eventId: 'world-2026', count: 1 });
    expect(host.app.get(AuditLog).lines).toEqual(['nobody at default', 'sam.several at default']);
  });

  it('may let users without an exhibitor pass', async () => {
    const visitor = await signIn(sandbox, host, 'nora.none');
    const reply = await visitor.visit(`${host.url}/audited`);
    expect(bodyOf(reply)).toEqual({ eventId: 'world-2026', count: 0 });
    expect(host.app.get(AuditLog).lines).toContain('nora.none has none at world-2026');
  });
});

describe.each(['express', 'fastify'] as const)(
  'a guard with members named run and services on %s',
  (kind) => {
    it('still requires an identity, and sets its headers', async () => {
      const host = await startHost({
        kind,
        controllers: [BoothController, AuditedController],
        providers: [AuditLog],
        options: (redirectUri) => ({
          tenant: sandbox.tenantOptions('acme', { redirectUri }),
          secrets: [COOKIE_SECRET],
        }),
      });
      try {
        expect((await new Visitor().visit(`${host.url}/namesake`)).status).toBe(401);
        const reply = await (await signIn(sandbox, host)).visit(`${host.url}/namesake`);
        expect([reply.status, reply.text]).toEqual([200, 'let in']);
        expect(reply.headers.get('cache-control')).toBe('private, no-store');
      } finally {
        await host.close();
      }
    });
  },
);

describe('without ExhibitorModule', () => {
  async function boot(guard: Type, providers: Type[] = []): Promise<void> {
    @Controller()
    class GuardedController {
      @Get()
      @UseGuards(guard)
      guarded(): void {}
    }
    @Module({ controllers: [GuardedController], providers })
    class AppModule {}
    const app = await createApp('express', AppModule);
    await app.init();
    await app.close();
  }

  it.each(
    [
      ExhibitorBackChannelLogoutGuard,
      ExhibitorGuard,
      ExhibitorIdentityGuard,
      ExhibitorLoginGuard,
      ExhibitorCallbackGuard,
      ExhibitorLogoutGuard,
    ].map((guard) => [guard.name, guard] as const),
  )('%s fails at boot and says which module to import', async (name, guard) => {
    await expect(boot(guard)).rejects.toThrow(
      new RegExp(`^${name} cannot find its services: import ExhibitorModule `),
    );
  });

  it('a subclass and the selection fail likewise', async () => {
    await expect(boot(AuditedGuard, [AuditLog])).rejects.toThrow(/^AuditedGuard .*import ExhibitorModule/);
    await expect(boot(OpenGuard, [ExhibitorSelection])).rejects.toThrow(
      /ExhibitorSelection .*import ExhibitorModule/,
    );
  });

  it('made by hand, or by a subclass that passes no services on, names both causes and what to do', () => {
    class ForgetfulGuard extends ExhibitorGuard {
      constructor(readonly audit: AuditLog) {
        super();
      }
    }
    for (const [name, make] of [
      ['ExhibitorGuard', () => new ExhibitorGuard()],
      ['ForgetfulGuard', () => new ForgetfulGuard(new AuditLog())],
    ] as const) {
      expect(make).toThrow(
        new RegExp(
          `^${name} cannot find its services: import ExhibitorModule .* isGlobal: true\\. Where it is imported, .* ` +
            `super\\(services\\) in a subclass, and new ${name}\\(app\\.get\\(ExhibitorGuardServices\\)\\)`,
        ),
      );
    }
  });
});
