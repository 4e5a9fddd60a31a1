import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Controller, Get, Param, UseGuards } from '@nestjs/common';
import {
  AllowAnonymous,
  CurrentEvent,
  ExhibitorGuard,
  ExhibitorIdentityGuard,
  ExhibitorLoginGuard,
  type HttpContext,
} from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { BoothController } from '../support/booth.controller.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import type { OtherOptions } from '../support/module-options.js';
import { OperatorLines } from '../support/operator-lines.js';
import { startSandbox } from '../support/sandbox.js';
import { Visitor } from '../support/visitor.js';
import { bodyOf, signIn } from './signed-in.js';

class LeadingGuard extends ExhibitorIdentityGuard {
  protected override onNoIdentity(http: HttpContext): Promise<never> {
    return this.redirectToLogin(http, '/auth/login');
  }
}

/** Its routes name the event in ways of their own. */
@Controller()
class FairController {
  @Get('fairs/:id/booth')
  @UseGuards(ExhibitorGuard)
  booth(@Param('id') id: string, @CurrentEvent() eventId: string): object {
    return { id, eventId };
  }

  @Get('fairs/:id/hall')
  @UseGuards(ExhibitorGuard)
  @AllowAnonymous()
  hall(@CurrentEvent() eventId: string | undefined): object {
    return { eventId };
  }

  @Get('portals/:tenant/booths/:exhibitorId')
  @UseGuards(ExhibitorGuard)
  portal(@CurrentEvent() eventId: string): object {
    return { eventId };
  }

  @Get('fairs/:id/events/:eventId')
  @UseGuards(ExhibitorGuard)
  both(@CurrentEvent() eventId: string): object {
    return { eventId };
  }

  @Get('fairs/:id/page')
  @UseGuards(LeadingGuard)
  page(): void {}

  @Get('fairs/:id/login')
  @UseGuards(ExhibitorLoginGuard)
  login(): void {}
}

const lines = new OperatorLines();
let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
});
afterAll(() => sandbox?.stop());

describe.each(['express', 'fastify'] as const)('the event of a route with other parameters on %s', (kind) => {
  let host: Host;
  afterEach(async () => {
    await host.close();
    lines.clear();
    sandbox.clearRequests();
  });

  async function startWith(options: OtherOptions = {}): Promise<(path: string) => Promise<[number, object]>> {
    host = await startHost({
      kind,
      controllers: [BoothController, FairController],
      configure: (app) => app.useLogger(lines),
      options: (redirectUri) => ({
        tenant: sandbox.tenantOptions('acme', { redirectUri }),
        secrets: [COOKIE_SECRET],
        ...options,
      }),
    });
    const visitor = await signIn(sandbox, host, 'sam.several', { eventId: 'boutique-2026' });
    return async (path) => {
      const reply = await visitor.visit(`${host.url}${path}`);
      return [reply.status, bodyOf(reply)];
    };
  }

  it('is neither that of the query nor that of the login: 400, without a lookup', async () => {
    const get = await startWith();
    const refused = [400, expect.objectContaining({ code: 'event_required' })];
    for (const query of ['', '?eventId=world-2026', '?eventId=boutique-2026']) {
      expect(await get(`/fairs/world-2026/booth${query}`)).toEqual(refused);
    }
    expect(await get('/fairs/world-2026/hall?eventId=boutique-2026')).toEqual([200, {}]);
    expect(sandbox.requests.filter(({ operation }) => operation === 'lookup')).toEqual([]);
  });

  it('is asked for in the log, by one line for each route', async () => {
    const get = await startWith();
    for (const route of ['booth', 'booth', 'hall', 'hall']) {
      await get(`/fairs/world-2026/${route}`);
    }
    expect(lines.all.filter((line) => line.includes('resolveEvent'))).toEqual([
      expect.stringContaining('FairController.booth'),
      expect.stringContaining('FairController.hall'),
    ]);
  });

  it('is the one that resolveEvent names, and no other where that names none', async () => {
    const get = await startWith({
      resolveEvent: ({ params }) => (params['id'] === 'none' ? undefined : params['id']),
    });
    const named = { id: 'world-2026', eventId: 'world-2026' };
    expect(await get('/fairs/world-2026/booth?eventId=boutique-2026')).toEqual([200, named]);
    expect(await get('/fairs/none/booth?eventId=boutique-2026')).toEqual([
      400,
      expect.objectContaining({ code: 'event_required' }),
    ]);
    expect(lines.all).toEqual([]);
  });

  it('is free where the parameters are tenant and exhibitor, or one is eventId', async () => {
    const get = await startWith();
    const [, mine] = await get('/mine');
    const { ids } = mine as { ids: string[] };
    expect(await get(`/portals/acme/booths/${ids[0]}`)).toEqual([200, { eventId: 'boutique-2026' }]);
    expect(await get('/fairs/x/events/world-2026?eventId=boutique-2026')).toEqual([
      200,
      { eventId: 'world-2026' },
    ]);
    expect(lines.all).toEqual([]);
  });

  it('is left to the page that a login leads back to, and a login route reads the query', async () => {
    await startWith();
    const page = await new Visitor().visit(`${host.url}/fairs/x/page?eventId=world-2026`, {
      headers: { accept: 'text/html' },
    });
    expect(page.headers.get('location')).toBe(
      `/auth/login?${new URLSearchParams({ returnTo: '/fairs/x/page?eventId=world-2026' })}`,
    );
    const login = await fetch(`${host.url}/fairs/x/login?eventId=world-2026`, { redirect: 'manual' });
    expect(login.status).toBe(302);
    expect(lines.all).toEqual([]);
  });
});
