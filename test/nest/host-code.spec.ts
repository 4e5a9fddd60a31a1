import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Inject,
  Injectable,
  Module,
  Optional,
  UseGuards,
  type CanActivate,
  type DynamicModule,
  type ExecutionContext,
  type Type,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ClientProxyFactory, MessagePattern, Transport } from '@nestjs/microservices';
import { firstValueFrom } from 'rxjs';
import {
  AllowAnonymous,
  CurrentEvent,
  CurrentExhibitor,
  CurrentExhibitors,
  CurrentIdentity,
  CurrentTenant,
  ExhibitorBackChannelLogoutGuard,
  ExhibitorCallbackGuard,
  ExhibitorError,
  ExhibitorGuard,
  ExhibitorGuardServices,
  ExhibitorIdentityGuard,
  ExhibitorLoginGuard,
  ExhibitorLogoutGuard,
  ExhibitorModule,
  ExhibitorSelection,
  type ExhibitorModuleOptions,
  type ExhibitorRequest,
  type HttpContext,
  type ExhibitorIdentity,
} from '../../lib/index.js';
import { BoothController } from '../support/booth.controller.js';
import { clockOf } from '../support/clock.js';
import { acmeOptions, COOKIE_SECRET, createApp, startHost, type Host } from '../support/host.js';
import { useClosing, useHost, useSandbox } from '../support/lifetimes.js';
import type { OtherOptions } from '../support/module-options.js';
import { OperatorLines } from '../support/operator-lines.js';
import { freePort } from '../support/server.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { routesOf } from './routes-of.js';
import { answerOf, bodyOf, Members, refused, signIn } from './signed-in.js';

/** A service of the host that its guards inject. */
@Injectable()
class AuditLog {
  readonly lines: string[] = [];
}

/** A host whose request is wrapped, as behind a gateway. */
@Injectable()
class WrappedRequestGuard extends ExhibitorIdentityGuard {
  protected override getRequest(context: ExecutionContext): ExhibitorRequest {
    const request = super.getRequest(context);
    const { 'x-forwarded-cookie': forwarded, ...others } = request.headers;
    request.headers = forwarded === undefined ? others : { ...others, cookie: forwarded };
    return request;
  }
}

/** A host that finds the exhibitors of a person itself. */
@Injectable()
class OwnRecordsGuard extends ExhibitorGuard {
  protected override getExhibitors(
    _http: HttpContext,
    _identity: ExhibitorIdentity,
    eventId: string,
  ): readonly unknown[] {
    return [{ id: `of ${eventId}` }];
  }
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
    tenantKey?: string,
  ): Promise<ExhibitorIdentity | undefined> {
    const identity = await super.getIdentity(http, tenantKey);
    this.audit.lines.push(`${identity?.subject ?? 'nobody'} at ${tenantKey}`);
    return identity;
  }

  protected override async onNoEvent(): Promise<string> {
    return 'world-2026';
  }

  protected override async getExhibitors(
    http: HttpContext,
    identity: ExhibitorIdentity,
    eventId: string,
  ): Promise<readonly unknown[]> {
    const exhibitors = await super.getExhibitors(http, identity, eventId);
    return exhibitors.slice(0, 1);
  }

  protected override async onNoExhibitor(
    _http: HttpContext,
    { subject }: ExhibitorIdentity,
    eventId: string,
  ): Promise<void> {
    this.audit.lines.push(`${subject} has none at ${eventId}`);
  }
}

const PORTAL = routesOf({
  records: [UseGuards(OwnRecordsGuard)],
  wrapped: [UseGuards(WrappedRequestGuard)],
  audited: [UseGuards(AuditedGuard)],
});

const DECORATORS = { CurrentExhibitors, CurrentExhibitor, CurrentIdentity, CurrentEvent, CurrentTenant };
type Decorator = keyof typeof DECORATORS;

/** A decorator without its guard, which is a mistake of a host. */
function mistakeWith(decorator: Decorator, path: string, ...guards: Type<CanActivate>[]): Type {
  @Controller(`${path}/${decorator}`)
  @UseGuards(...guards)
  class MistakenController {
    @Get()
    given(@(DECORATORS[decorator]()) given: unknown): unknown {
      return given;
    }
  }
  return MistakenController;
}

const OF_EXHIBITORS: Decorator[] = ['CurrentExhibitors', 'CurrentExhibitor'];
const MISTAKES = [
  ...(Object.keys(DECORATORS) as Decorator[]).map((name) => mistakeWith(name, 'mistakes')),
  ...OF_EXHIBITORS.map((name) => mistakeWith(name, 'identity-guard', ExhibitorIdentityGuard)),
  ...OF_EXHIBITORS.map((name) => mistakeWith(name, 'public', ExhibitorIdentityGuard)),
];
MISTAKES.slice(-OF_EXHIBITORS.length).forEach((controller) => AllowAnonymous()(controller));

const log = new OperatorLines();
const sandbox = await useSandbox();
beforeEach(() => log.clear());

describe('guards in a module of the host', () => {
  /** Not global: the guards get only what the imported module re-exports. */
  const inModules = (options: ExhibitorModuleOptions): DynamicModule => {
    @Module({ imports: [ExhibitorModule.forRoot(options)], exports: [ExhibitorModule] })
    class ServiceModule {}

    @Module({})
    class PortalModule {}
    const controllers = [BoothController, PORTAL, ...MISTAKES];
    return {
      module: PortalModule,
      imports: [ServiceModule],
      controllers,
      providers: [AuditLog],
    };
  };
  const host = useHost(() =>
    startHost({
      kind: 'fastify',
      controllers: [],
      module: inModules,
      configure: (app) => app.useLogger(log),
      options: acmeOptions(sandbox),
    }),
  );
  const members = new Members(sandbox, host);
  const audit = () => host.app.get(AuditLog, { strict: false }).lines;
  afterEach(() => void audit().splice(0));

  const get = async (path: string, person?: string, query = {}): Promise<Reply> => {
    const visitor = person === undefined ? new Visitor() : await members.enter(person, query);
    return visitor.visit(`${host.url}${path}`);
  };

  it('work where the module is imported, not global', async () => {
    expect((await get('/events/world-2026/mine', 'sam.several')).status).toBe(200);
  });

  it('let a subclass find the exhibitors itself, for an event id that can be one', async () => {
    expect(bodyOf(await get('/records?eventId=own', 'nora.none'))).toMatchObject({ count: 1, id: 'of own' });
    for (const eventId of ['%00', '..', 'x'.repeat(129)]) {
      const reply = await get(`/records?eventId=${eventId}`, 'nora.none');
      expect(answerOf(reply)).toEqual(refused(400, 'invalid_argument'));
    }
  });

  it('let a subclass return the request', async () => {
    const sealed = (await members.enter()).cookies('127.0.0.1').get('exhibitor-identity');
    const headers = { 'x-forwarded-cookie': `exhibitor-identity=${sealed}` };
    const wrapped = await new Visitor().visit(`${host.url}/wrapped`, { headers });
    expect(answerOf(wrapped)).toMatchObject([200, { tenant: 'default' }]);
    expect((await get('/wrapped')).status).toBe(401);
  });

  it('let a subclass have a constructor, and answer promises in every step', async () => {
    expect((await get('/audited')).status).toBe(401);
    for (const [person, count] of [
      ['sam.several', 1],
      ['nora.none', 0],
    ] as const) {
      expect(bodyOf(await get('/audited', person))).toMatchObject({ eventId: 'world-2026', count });
    }
    expect(audit()).toEqual([
      'nobody at default',
      'sam.several at default',
      'nora.none at default',
      'nora.none has none at world-2026',
    ]);
  });

  it.each(Object.keys(DECORATORS))(
    'are required by @%s, which is logged and not shown to the visitor',
    async (decorator) => {
      const reply = await get(`/mistakes/${decorator}`);
      expect(answerOf(reply)).toEqual([500, { statusCode: 500, message: 'Internal server error' }]);
      expect(log.errors.join('\n')).toMatch(
        new RegExp(`@${decorator}\\(\\) needs Exhibitor(Identity)?Guard on the route`),
      );
    },
  );

  it.each(OF_EXHIBITORS)('for identities are not enough for @%s, of nobody either', async (decorator) => {
    for (const [path, person] of [
      ['identity-guard', 'olga.one'],
      ['public', 'olga.one'],
      ['public', undefined],
    ]) {
      log.clear();
      const reply = await get(`/${path}/${decorator}`, person, { eventId: 'world-2026' });
      expect([path, person, reply.status]).toEqual([path, person, 500]);
      expect(log.errors.join('\n')).toContain(`@${decorator}() needs ExhibitorGuard on the route`);
    }
  });
});

const closing = useClosing();

it('the callback provides the event of the login, where there is one', async () => {
  @Controller('auth/event')
  class EventController {
    @Get()
    @UseGuards(ExhibitorCallbackGuard)
    back(@CurrentEvent() eventId = 'none', @CurrentTenant() tenant: string): object {
      return { eventId, tenant };
    }
  }
  const host = closing(
    await startHost({
      controllers: [BoothController, EventController],
      options: (_, url) => acmeOptions(sandbox)(`${url}/auth/event`),
    }),
  );
  sandbox.signInAs('olga.one');
  const login = async (query: string) => bodyOf(await new Visitor().follow(`${host.url}/auth/login${query}`));
  expect(await login('?eventId=world-2026')).toEqual({ eventId: 'world-2026', tenant: 'default' });
  expect(await login('')).toEqual({ eventId: 'none', tenant: 'default' });
});

/** A guard without any service. */
class OpenGuard {
  canActivate(): boolean {
    return true;
  }
}

describe('without ExhibitorModule', () => {
  async function boot(guard: Type, providers: Type[]): Promise<void> {
    @Module({ controllers: [routesOf({ guarded: [UseGuards(guard)] })], providers })
    class AppModule {}
    const app = await createApp('express', AppModule);
    await app.init();
    await app.close();
  }

  it.each<[name: string, guard: Type, providers: Type[]]>([
    ['ExhibitorBackChannelLogoutGuard', ExhibitorBackChannelLogoutGuard, []],
    ['ExhibitorGuard', ExhibitorGuard, []],
    ['ExhibitorIdentityGuard', ExhibitorIdentityGuard, []],
    ['ExhibitorLoginGuard', ExhibitorLoginGuard, []],
    ['ExhibitorCallbackGuard', ExhibitorCallbackGuard, []],
    ['ExhibitorLogoutGuard', ExhibitorLogoutGuard, []],
    ['AuditedGuard', AuditedGuard, [AuditLog]],
    ['ExhibitorSelection', OpenGuard, [ExhibitorSelection]],
  ])('%s fails at boot and says which module to import', async (name, guard, providers) => {
    await expect(boot(guard, providers)).rejects.toThrow(
      new RegExp(`^${name} cannot find its services: import ExhibitorModule `),
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

const UNCONFIGURED = {
  statusCode: 500,
  message: 'The server is not configured for this',
  error: 'Internal Server Error',
  code: 'configuration_invalid',
};

describe('a mistake of the host', () => {
  const start = async (options: OtherOptions): Promise<Host> =>
    closing(
      await startHost({
        kind: 'fastify',
        configure: (app) => app.useLogger(log),
        options: acmeOptions(sandbox, options),
      }),
    );

  it.each([
    ['resolveTenant', 'default'],
    ['resolveEvent', 'world-2026'],
    ['resolveExhibitor', undefined],
  ])('in %s is 500 without a detail, and named in the log', async (option, good) => {
    let answer: unknown = good;
    const { app, url } = await start({ [option]: () => answer });
    const visitor = await signIn(sandbox, { url }, 'olga.one');
    const path = `${url}/events/world-2026/booth`;
    expect((await visitor.visit(path)).status).toBe(200);
    for (const [wrong, type] of [
      [7, 'number'],
      [{ id: 'secret' }, 'object'],
      [['secret'], 'object'],
      [Promise.resolve(true), 'boolean'],
    ]) {
      sandbox.clearRequests();
      log.clear();
      answer = wrong;
      const reply = await visitor.visit(path);
      expect(answerOf(reply)).toEqual([500, UNCONFIGURED]);
      expect(log.errors.join('\n')).toContain(`${option}: must answer a string or undefined, not ${type}`);
      expect(log.errors.join('\n')).not.toContain('secret');
      if (option !== 'resolveExhibitor') {
        expect(sandbox.requests).toHaveLength(0);
      }
      // The next line about it comes a minute later.
      clockOf(app).skip(60_001, ['now']);
    }
  });

  it("with session: 'host', no Passport and no storeIdentity refuses the login, and names both", async () => {
    const { url } = await start({ session: 'host' });
    sandbox.signInAs('olga.one');
    const reply = await new Visitor().follow(`${url}/auth/login`);
    expect(answerOf(reply)).toEqual([500, UNCONFIGURED]);
    expect(reply.setCookies.filter((cookie) => !cookie.startsWith('exhibitor-login'))).toEqual([]);
    expect(log.errors.join('\n')).toContain(
      "session: 'host' needs request.logIn of Passport, or ExhibitorCallbackGuard.storeIdentity of your own",
    );
  });

  it('that takes logouts of the provider without looking for them is refused at boot', async () => {
    await expect(start({ logoutCheck: { provider: false } })).rejects.toThrow(
      'logoutCheck.provider: must be true where ExhibitorBackChannelLogoutGuard is used',
    );
  });
});

@Controller()
class MessageController {
  @MessagePattern('guarded')
  @UseGuards(ExhibitorGuard)
  guarded(): string {
    return 'the guard let it pass';
  }

  @MessagePattern('guarded by identity')
  @UseGuards(ExhibitorIdentityGuard)
  @AllowAnonymous()
  guardedByIdentity(): string {
    return 'the guard let it pass';
  }

  @MessagePattern('failing')
  failing(): never {
    throw new ExhibitorError('service_unavailable', 'the service is down');
  }

  @MessagePattern('decorated')
  decorated(@CurrentIdentity() identity: unknown): unknown {
    return identity;
  }
}

it('a message handler over TCP cannot be guarded, and its client hears of each error', async () => {
  @Module({
    imports: [ExhibitorModule.forRoot({ tenant: sandbox.tenantOptions('acme'), secrets: [COOKIE_SECRET] })],
    controllers: [MessageController],
  })
  class AppModule {}
  const options = { host: '127.0.0.1', port: await freePort() };
  const service = closing(
    await NestFactory.createMicroservice(AppModule, {
      transport: Transport.TCP,
      options,
      logger: log,
      abortOnError: false,
    }),
  );
  await service.listen();
  const client = ClientProxyFactory.create({ transport: Transport.TCP, options });
  closing({ close: async () => client.close() });
  for (const [pattern, line] of [
    // What it has instead of a request must not be read as one. WebSockets are another such context.
    ['guarded', "ExhibitorGuard serves HTTP and GraphQL, not 'rpc'"],
    ['guarded by identity', "ExhibitorIdentityGuard serves HTTP and GraphQL, not 'rpc'"],
    ['decorated', "@CurrentIdentity() serves HTTP and GraphQL, not 'rpc'"],
    ['failing', 'the service is down'],
  ]) {
    const reply = firstValueFrom(client.send<unknown>(pattern, ''));
    await expect(reply).rejects.toEqual({ status: 'error', message: 'Internal server error' });
    expect(log.errors.join('\n')).toContain(line);
  }
});
