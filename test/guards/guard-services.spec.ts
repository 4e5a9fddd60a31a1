import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Controller, Get, Inject, Injectable, Module, Optional, UseGuards, type Type } from '@nestjs/common';
import {
  CurrentEvent,
  CurrentExhibitors,
  ExhibitorBackChannelLogoutGuard,
  ExhibitorCallbackGuard,
  ExhibitorGuard,
  ExhibitorGuardServices,
  ExhibitorIdentityGuard,
  ExhibitorLoginGuard,
  ExhibitorLogoutGuard,
  ExhibitorSelection,
  type Exhibitor,
  type HttpContext,
  type SessionState,
} from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { BoothController } from '../support/booth.controller.js';
import { COOKIE_SECRET, createApp, startHost, type Host } from '../support/host.js';
import { startSandbox } from '../support/sandbox.js';
import { Visitor } from '../support/visitor.js';
import { bodyOf, signIn } from './signed-in.js';

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

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());

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
});
