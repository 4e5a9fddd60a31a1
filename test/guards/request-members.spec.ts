import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import {
  Controller,
  Get,
  Injectable,
  Req,
  UseGuards,
  type CanActivate,
  type ExecutionContext,
} from '@nestjs/common';
import { CurrentEvent, ExhibitorGuard, type ExhibitorRequest } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { COOKIE_SECRET, setUser, startHost, type Host, type HostKind } from '../support/host.js';
import { startSandbox } from '../support/sandbox.js';
import { startServer, type TestServer } from '../support/server.js';

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

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());

/** A host at which somebody is logged in. */
function startMembersHost(kind: HostKind): Promise<Host> {
  return startHost({
    kind,
    controllers: [MembersController],
    configure: (app) =>
      setUser(app, kind, () => ({
        issuer: sandbox.url,
        subject: 'sam.several',
        email: 'sam.several@example.com',
        tenant: 'default',
      })),
    options: (redirectUri) => ({
      tenant: sandbox.tenantOptions('acme', { redirectUri }),
      session: 'host',
      secrets: [COOKIE_SECRET],
    }),
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
