import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Injectable,
  Module,
  Req,
  UseGuards,
  type CanActivate,
  type ExecutionContext,
  type INestApplication,
  type Type,
} from '@nestjs/common';
import { CurrentEvent, ExhibitorGuard, ExhibitorModule, type ExhibitorRequest } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { COOKIE_SECRET, createApp, type HostKind } from '../support/host.js';
import { startSandbox } from '../support/sandbox.js';

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
  unguarded(@Req() { exhibitors, exhibitorContext }: ExhibitorRequest): unknown[] {
    return [exhibitors ?? null, exhibitorContext ?? null];
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

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());

function hostModule(): Type {
  const redirectUri = 'http://127.0.0.1/auth/callback';
  const tenant = sandbox.tenantOptions('acme', { redirectUri });

  @Module({
    imports: [ExhibitorModule.forRoot({ tenant, session: 'host', secrets: [COOKIE_SECRET] })],
    controllers: [MembersController],
  })
  class AppModule {}

  return AppModule;
}

/** A host, not listening yet, at which somebody is logged in. */
async function createHost(kind: HostKind): Promise<INestApplication> {
  const app = await createApp(kind, hostModule());
  const setUser = (request: { user?: unknown }): void => {
    request.user = {
      issuer: sandbox.url,
      subject: 'sam.several',
      email: 'sam.several@example.com',
      tenant: 'default',
    };
  };
  if (kind === 'fastify') {
    const fastify = app.getHttpAdapter().getInstance();
    fastify.addHook('preHandler', async (request: { user?: unknown }) => setUser(request));
  } else {
    app.use((request: { user?: unknown }, _: unknown, next: () => void) => {
      setUser(request);
      next();
    });
  }
  return app;
}

async function get(url: string, path: string): Promise<unknown> {
  const reply = await fetch(`${url}${path}`);
  return reply.json();
}

const MEMBERS = { count: 3, same: true, eventId: 'world-2026' };

describe.each(['express', 'fastify'] as const)('the members of a request on %s', (kind) => {
  let app: INestApplication;
  let url: string;
  beforeAll(async () => {
    app = await createHost(kind);
    await app.listen(0, '127.0.0.1');
    url = await app.getUrl();
  });
  afterAll(() => app?.close());

  it('are set by the guard', async () => {
    expect(await get(url, '/members/world-2026')).toEqual(MEMBERS);
  });

  it('are undefined without a guard', async () => {
    expect(await get(url, '/unguarded')).toEqual([null, null]);
  });

  it('can be replaced by a guard of the host, and again by ExhibitorGuard', async () => {
    expect(await get(url, '/replaced/world-2026')).toEqual(['of-the-host', 'of-the-host']);
    expect(await get(url, '/guarded-again/world-2026')).toEqual(['world-2026', 'world-2026']);
  });
});

describe('on Express', () => {
  let app: INestApplication | undefined;
  let server: Server | undefined;
  afterEach(async () => {
    server?.close();
    await app?.close();
  });

  it('requests have the members from the beginning: Express makes each one that is added later slow', async () => {
    app = await createHost('express');
    const names: string[] = [];
    app.use((request: object, _: unknown, next: () => void) => {
      names.push(...Object.keys(request).filter((name) => name.startsWith('exhibitor')));
      next();
    });
    await app.listen(0, '127.0.0.1');
    expect(await get(await app.getUrl(), '/members/world-2026')).toEqual(MEMBERS);
    expect(names).toEqual(['exhibitors', 'exhibitorContext']);
  });

  it('a server of the host may have set them: the guard replaces them, and they stay without it', async () => {
    app = await createHost('express');
    await app.init();
    const express = app.getHttpAdapter().getInstance();
    const ofTheHost = { exhibitors: [], exhibitorContext: { tenant: 'of-the-host' } };
    server = createServer((request, response) => express(Object.assign(request, ofTheHost), response));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    expect(await get(url, '/members/world-2026')).toEqual(MEMBERS);
    expect(await get(url, '/unguarded')).toEqual([[], { tenant: 'of-the-host' }]);
  });
});
