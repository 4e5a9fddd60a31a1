import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  Controller,
  Get,
  Injectable,
  Post,
  Redirect,
  UseGuards,
  type ExecutionContext,
} from '@nestjs/common';
import {
  ExhibitorCallbackGuard,
  ExhibitorLoginGuard,
  LoginFailedError,
  type ExhibitorError,
  type StartedLogin,
} from '../../lib/index.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { ScriptedProvider } from '../support/provider.js';
import { answers, sends } from '../support/provider-script.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { FLOWS, HYBRID } from './flows.js';
import {
  copyOf,
  expectRefusal,
  identityOf,
  logIn,
  pendingLogins,
  toHost,
  toProvider,
  type Arrival,
} from './journey.js';

let provider: ScriptedProvider;
const hosts: Host[] = [];
beforeAll(async () => {
  provider = await ScriptedProvider.start();
});
afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.close()));
});
afterAll(() => provider?.stop());

async function start(kind: 'express' | 'fastify', responseType: (typeof FLOWS)[number]): Promise<Host> {
  const host = await startHost({
    kind,
    options: (callback) => ({
      tenant: provider.tenantOptions(callback, { responseType }),
      secrets: [COOKIE_SECRET],
    }),
  });
  hosts.push(host);
  return host;
}

/** The provider's answer as an error, by this method. */
function failed(arrival: Arrival, error: string, method: Arrival['method'] = 'GET'): Arrival {
  const state = arrival.parameters.get('state') ?? '';
  return { ...arrival, method, parameters: new URLSearchParams({ state, error }) };
}

describe.each(['express', 'fastify'] as const)('an error of a hybrid login on %s', (kind) => {
  describe.each(HYBRID)('by %s', (flow) => {
    it.each([
      ['access_denied', 'denied'],
      ['server_error', 'provider'],
    ])('is told by GET and by POST: %s', async (error, reason) => {
      const host = await start(kind, flow);
      for (const method of ['GET', 'POST'] as const) {
        const visitor = new Visitor();
        const arrival = await toProvider(visitor, host);
        const early = copyOf(visitor, host);
        expectRefusal(await toHost(visitor, failed(arrival, error, method)), reason);
        expect(pendingLogins(visitor, host)).toEqual([]);
        expectRefusal(await toHost(early, arrival), 'state');
      }
    });

    it('ends nothing with another state, by another path or by HEAD', async () => {
      const host = await start(kind, flow);
      const visitor = new Visitor();
      const arrival = await toProvider(visitor, host);
      const forged = failed(arrival, 'access_denied');
      forged.parameters.set('state', 'x'.repeat(43));
      expectRefusal(await toHost(visitor, forged), 'state');
      const error = failed(arrival, 'access_denied');
      await visitor.visit(`${host.callback}?${error.parameters}`, { method: 'HEAD' });
      await visitor.visit(`${host.url}/auth/logout?${error.parameters}`, { method: 'POST' });
      expect((await toHost(visitor, arrival)).status).toBe(303);
    });

    it('does not open the way for a response by GET', async () => {
      const host = await start(kind, flow);
      const visitor = new Visitor();
      const arrival = await toProvider(visitor, host);
      expectRefusal(await toHost(visitor, { ...arrival, method: 'GET' }), 'state');
      expect((await toHost(visitor, arrival)).status).toBe(303);
    });
  });

  it('is not told by POST for the code flow, whose response is a GET', async () => {
    const host = await start(kind, 'code');
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    expectRefusal(await toHost(visitor, failed(arrival, 'access_denied', 'POST')), 'state');
    expectRefusal(await toHost(visitor, failed(arrival, 'access_denied', 'GET')), 'denied');
  });
});

/** The refusal says what to do. */
function expectAdvice(reply: Reply): void {
  expectRefusal(reply, 'state');
  expect(reply.text).toMatch(/finished before.*expired.*start the login again/);
}

describe.each(FLOWS)('the message of a callback that is over, by %s', (flow) => {
  it('says what to do after a reload, and the session goes on', async () => {
    const host = await start('express', flow);
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    const early = copyOf(visitor, host);
    expect((await toHost(visitor, arrival)).status).toBe(303);
    expectAdvice(await toHost(visitor, arrival));
    // The cookie of the login may still be there: Back out of a cache, or two clicks.
    expectAdvice(await toHost(early, arrival));
    expect(await identityOf(visitor, host)).toMatchObject({ subject: 'pat' });
  });

  it('says it in the oldest of many tabs', async () => {
    const host = await start('express', flow);
    const visitor = new Visitor();
    const oldest = await toProvider(visitor, host);
    for (let tab = 0; tab < 12; tab++) {
      await toProvider(visitor, host);
    }
    expectAdvice(await toHost(visitor, oldest));
  });

  it('says it to a bare visit, and is true: a new login works', async () => {
    const host = await start('express', flow);
    const visitor = new Visitor();
    expectAdvice(await visitor.visit(host.callback));
    expect((await logIn(visitor, host)).status).toBe(303);
  });
});

/** What `onLoginFailed` was told, in order. */
const told: { error: ExhibitorError; login: StartedLogin | undefined }[] = [];

/** Leads to a page of its own, later or at once; leaves `nonce` to the package. */
@Injectable()
class PortalCallbackGuard extends ExhibitorCallbackGuard {
  protected override onLoginFailed(error: ExhibitorError, context: ExecutionContext): void | Promise<void> {
    told.push({ error, login: this.getStartedLogin(context) });
    if (error instanceof LoginFailedError && error.reason === 'nonce') {
      return super.onLoginFailed(error, context);
    }
    return error.code === 'login_failed' ? this.#answer(error, context) : this.#answerLater(error, context);
  }

  #answer(error: ExhibitorError, context: ExecutionContext): void {
    this.redirect(context, `/failed?code=${error.code}`);
  }

  async #answerLater(error: ExhibitorError, context: ExecutionContext): Promise<void> {
    await sleep(5);
    this.#answer(error, context);
  }
}

@Controller('auth')
class PortalController {
  @Get('login')
  @UseGuards(ExhibitorLoginGuard)
  login(): void {}

  @Get('callback')
  @UseGuards(PortalCallbackGuard)
  @Redirect('/', 303)
  callback(): void {}

  @Post('callback')
  @UseGuards(PortalCallbackGuard)
  @Redirect('/', 303)
  formCallback(): void {}
}

describe.each(['express', 'fastify'] as const)('onLoginFailed of a host on %s', (kind) => {
  let host: Host;
  let hybrid: Host;
  beforeAll(async () => {
    const startPortal = (responseType: (typeof FLOWS)[number]): Promise<Host> =>
      startHost({
        kind,
        controllers: [PortalController],
        options: (callback) => ({
          tenants: { acme: provider.tenantOptions(callback, { responseType }) },
          secrets: [COOKIE_SECRET],
        }),
      });
    [host, hybrid] = [await startPortal('code'), await startPortal('code id_token')];
  });
  afterEach(() => {
    provider.script = {};
    told.length = 0;
  });
  afterAll(() => Promise.all([host?.close(), hybrid?.close()]));

  const QUERY = '?eventId=world-2026&returnTo=%2Fevents%2Fworld%20fair';
  const STARTED = { tenant: 'acme', eventId: 'world-2026', returnTo: '/events/world%20fair' };

  function expectPage(reply: Reply, code = 'login_failed'): void {
    expect([reply.status, new URL(reply.location ?? '', host.url).pathname]).toEqual([303, '/failed']);
    expect(new URL(reply.location ?? '', host.url).searchParams.get('code')).toBe(code);
    expect(reply.headers.get('cache-control')).toBe('no-store');
  }

  it('leads a person who cancels to a page, with event and return address, by GET and by POST', async () => {
    for (const [one, method] of [
      [host, 'GET'],
      [hybrid, 'POST'],
    ] as const) {
      const visitor = new Visitor();
      const arrival = await toProvider(visitor, one, QUERY);
      expectPage(await toHost(visitor, failed(arrival, 'access_denied', method)));
      expect(pendingLogins(visitor, one)).toEqual([]);
      expect(told.splice(0)).toEqual([
        { error: expect.objectContaining({ reason: 'denied', tenant: 'acme' }), login: STARTED },
      ]);
    }
  });

  it('names no return address where the login named none: the host has its own default', async () => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host, '?eventId=world-2026');
    expectPage(await toHost(visitor, failed(arrival, 'access_denied', 'GET')));
    expect(told).toEqual([{ error: expect.anything(), login: { tenant: 'acme', eventId: 'world-2026' } }]);
  });

  it('is told what the provider said, and the visitor is not', async () => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host, QUERY);
    provider.script = {
      token: answers({ error: 'unauthorized_client', error_description: 'PAR only' }, 400),
    };
    const reply = await toHost(visitor, arrival);
    expectPage(reply);
    expect(JSON.stringify([...reply.headers, reply.text])).not.toMatch(/PAR|unauthorized/);
    expect(told).toEqual([
      {
        error: expect.objectContaining({
          reason: 'provider',
          oauthError: 'unauthorized_client',
          oauthErrorDescription: 'PAR only',
          status: 400,
        }),
        login: STARTED,
      },
    ]);
  });

  it.each([
    ['500', 'service_unavailable', answers({}, 500)],
    ['429', 'rate_limited', answers({}, 429)],
    ['a reset', 'service_unavailable', sends({ fault: 'reset' })],
  ])('hears of a provider that is down, too: %s', async (_, code, token) => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host, QUERY);
    provider.script = { token };
    expectPage(await toHost(visitor, arrival), code);
    expect(told).toEqual([{ error: expect.objectContaining({ code }), login: STARTED }]);
  });

  it('knows no login where the state matches none: finished, forged, or a bare visit', async () => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host, QUERY);
    const early = copyOf(visitor, host);
    expect((await toHost(visitor, arrival)).location).toBe(`${host.url}/`);
    expectPage(await toHost(visitor, arrival));
    expectPage(await visitor.visit(`${host.callback}?error=access_denied&state=${'x'.repeat(43)}`));
    expectPage(await visitor.visit(host.callback));
    expect(told.map(({ login }) => login)).toEqual([undefined, undefined, undefined]);
    // The cookie is still there, but its state was spent.
    expectPage(await toHost(early, arrival));
    expect(told.at(-1)?.login).toEqual(STARTED);
    expect(told.map(({ error }) => (error as LoginFailedError).reason)).toEqual(Array(4).fill('state'));
  });

  it('may leave the reply to the package', async () => {
    const visitor = new Visitor();
    provider.script = { backToken: { claims: (claims) => void (claims['nonce'] = 'other') } };
    expectRefusal(await logIn(visitor, host), 'nonce');
    expect(told).toHaveLength(1);
  });

  it('is not asked about a login that succeeds', async () => {
    expect((await logIn(new Visitor(), host)).location).toBe(`${host.url}/`);
    expect(told).toEqual([]);
  });
});
