import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeAll, describe, expect, it } from '@jest/globals';
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
  TenantRegistry,
  type ExhibitorError,
  type StartedLogin,
} from '../../lib/index.js';
import { clockOf } from '../support/clock.js';
import { COOKIE_SECRET, type Host, type HostKind } from '../support/host.js';
import type { LoginOverrides, ScriptedProvider } from '../support/provider.js';
import { answers, sends } from '../support/provider-script.js';
import { Visitor, type Reply } from '../support/visitor.js';
import type { Flow } from './flows.js';
import { withProvider } from './hosts.js';
import {
  copyOf,
  expectAccepted,
  expectRefusal,
  identityOf,
  logIn,
  pendingLogins,
  toHost,
  toProvider,
  type Arrival,
} from './journey.js';

let provider: ScriptedProvider;
const start = withProvider((started) => (provider = started));

/** An arrival with other parameters. */
function changed(arrival: Arrival, edit: (parameters: URLSearchParams) => void): Arrival {
  const parameters = new URLSearchParams(arrival.parameters);
  edit(parameters);
  return { ...arrival, parameters };
}

/** The provider's answer as an error, by this method. */
function failed(arrival: Arrival, error: string, method = arrival.method): Arrival {
  const state = arrival.parameters.get('state') ?? '';
  return { ...arrival, method, parameters: new URLSearchParams({ state, error }) };
}

/** Expects a refusal that says what to do. */
function expectAdvice(reply: Reply): void {
  expectRefusal(reply, 'state');
  expect(reply.text).toMatch(/finished before.*expired.*start the login again/);
}

/** A change of the response, after which it belongs to no login. */
type Edit = [what: string, edit: (arrival: Arrival) => Arrival];

const OTHER_STATE = 'x'.repeat(43);
const LOGIN_TTL = 60_000;

describe.each<[HostKind, Flow]>([
  ['express', 'code'],
  ['fastify', 'code token id_token'],
])('the state of a login on %s by %s', (kind, responseType) => {
  let host: Host;
  beforeAll(async () => {
    host = await start({ kind, login: { responseType }, cookies: { loginTtl: LOGIN_TTL } });
  });

  const without = (name: string) => (arrival: Arrival) => changed(arrival, (all) => all.delete(name));
  const twice = (name: string) => (arrival: Arrival) =>
    changed(arrival, (all) => all.append(name, all.get(name) ?? ''));
  const stateOf = (edit: (state: string) => string) => (arrival: Arrival) =>
    changed(arrival, (all) => all.set('state', edit(all.get('state') ?? '')));
  const sent = responseType === 'code' ? ['code'] : ['code', 'id_token', 'access_token'];

  it.each<Edit>([
    ['is required', without('state')],
    ['must be known', stateOf(() => OTHER_STATE)],
    ['must be unchanged', stateOf((state) => `${state}x`)],
    ['must not be empty', stateOf(() => '')],
    ...['state', 'iss', ...sent].map((name): Edit => [`must not come with ${name} twice`, twice(name)]),
    ...sent.map((name): Edit => [`must not come without ${name}`, without(name)]),
    [
      'is required with an error',
      (arrival) => ({ ...arrival, parameters: new URLSearchParams({ error: 'x' }) }),
    ],
    [
      'must be known with an error',
      (arrival) => stateOf(() => OTHER_STATE)(failed(arrival, 'access_denied', 'GET')),
    ],
    [
      'is accepted only by the method its login asked for',
      (arrival) => ({ ...arrival, method: arrival.method === 'GET' ? 'POST' : 'GET' }),
    ],
  ])('%s: else the login is refused, and can still be finished', async (_, edit) => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    const tokens = provider.count('/connect/token');
    const refused = await toHost(visitor, edit(arrival));
    expectRefusal(refused, 'state');
    expect(refused.setCookies.filter((cookie) => cookie.includes('exhibitor'))).toEqual([]);
    expect(provider.count('/connect/token')).toBe(tokens);
    expect(await identityOf(visitor, host)).toBeUndefined();
    expect((await toHost(visitor, arrival)).status).toBe(303);
    expect(await identityOf(visitor, host)).toMatchObject({ subject: 'pat' });
  });

  it('must belong to this browser', async () => {
    const victim = new Visitor();
    await toProvider(victim, host);
    const attacker = await toProvider(new Visitor(), host);
    expectRefusal(await toHost(victim, attacker), 'state');
    expect(pendingLogins(victim, host)).toHaveLength(1);
    expect(await identityOf(victim, host)).toBeUndefined();
  });

  it('is not accepted with a changed cookie', async () => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    const cookies = visitor.cookies('127.0.0.1');
    const [name = ''] = pendingLogins(visitor, host);
    const sealed = cookies.get(name) ?? '';
    const at = sealed.length - 30;
    cookies.set(name, `${sealed.slice(0, at)}${sealed[at] === 'A' ? 'B' : 'A'}${sealed.slice(at + 1)}`);
    expectRefusal(await toHost(visitor, arrival), 'state');
    cookies.set(name, sealed);
    expect((await toHost(visitor, arrival)).status).toBe(303);
  });

  it('is not accepted with the cookie of another login of this browser', async () => {
    const visitor = new Visitor();
    const first = await toProvider(visitor, host);
    const [firstName = ''] = pendingLogins(visitor, host);
    await toProvider(visitor, host);
    const cookies = visitor.cookies('127.0.0.1');
    const [secondName = ''] = pendingLogins(visitor, host).filter((name) => name !== firstName);
    cookies.set(firstName, cookies.get(secondName) ?? '');
    expectRefusal(await toHost(visitor, first), 'state');
  });

  it('is accepted once', async () => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    const early = copyOf(visitor, host);
    expect((await toHost(visitor, arrival)).status).toBe(303);
    const tokens = provider.count('/connect/token');
    expectRefusal(await toHost(visitor, arrival), 'state');
    expectRefusal(await toHost(early, arrival), 'state');
    expect(provider.count('/connect/token')).toBe(tokens);
    expect(await identityOf(early, host)).toBeUndefined();
  });

  it('is accepted once of several requests at the same time', async () => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    const code = arrival.parameters.get('code') ?? '';
    const replies = await Promise.all(
      Array.from({ length: 8 }, () => toHost(copyOf(visitor, host), arrival)),
    );
    expect(replies.map(({ status }) => status).toSorted()).toEqual([303, ...Array<number>(7).fill(401)]);
    expect(provider.redemptions.get(code)).toBe(1);
  });

  it('is spent by a real error, and by a finished login, whose reload says what to do', async () => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    expectRefusal(await toHost(visitor, failed(arrival, 'access_denied')), 'denied');
    expectRefusal(await toHost(visitor, arrival), 'state');
    const next = await toProvider(visitor, host);
    const early = copyOf(visitor, host);
    expect((await toHost(visitor, next)).status).toBe(303);
    const before = await identityOf(visitor, host);
    expectAdvice(await toHost(visitor, next));
    // The cookie of the login may still be there: Back out of a cache, or two clicks.
    expectAdvice(await toHost(early, next));
    expect(await identityOf(visitor, host)).toEqual(before);
  });

  it('of the oldest of many tabs is refused with the same advice', async () => {
    const visitor = new Visitor();
    const oldest = await toProvider(visitor, host);
    for (let tab = 0; tab < 12; tab++) {
      await toProvider(visitor, host);
    }
    expectAdvice(await toHost(visitor, oldest));
  });

  it('expires with loginTtl', async () => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    const clock = clockOf(host.app);
    clock.skip(LOGIN_TTL + 1);
    expectRefusal(await toHost(visitor, arrival), 'state');
    clock.back();
    expect((await toHost(visitor, arrival)).status).toBe(303);
  });

  it('is not read from the query of a form post, nor is a bare visit accepted', async () => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    const mixed =
      arrival.method === 'POST'
        ? await visitor.visit(`${arrival.callback}?${arrival.parameters}`, { method: 'POST' })
        : await visitor.visit(arrival.callback);
    expectRefusal(mixed, 'state');
    expect((await toHost(visitor, arrival)).status).toBe(303);
  });

  it('is not spent by HEAD, which link checkers send', async () => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    const head = await visitor.visit(`${arrival.callback}?${arrival.parameters}`, { method: 'HEAD' });
    expect([401, 404]).toContain(head.status);
    expect(head.setCookies).toEqual([]);
    expect((await toHost(visitor, arrival)).status).toBe(303);
  });

  it.each(['PUT', 'DELETE', 'PATCH', 'OPTIONS'])('is not accepted by %s', async (method) => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    const reply = await visitor.visit(`${arrival.callback}?${arrival.parameters}`, { method });
    expect(reply.status).toBe(404);
    expect((await toHost(visitor, arrival)).status).toBe(303);
  });

  it('is missing in a visit without parameters, which is refused', async () => {
    expectAdvice(await new Visitor().visit(host.callback));
    expectAdvice(await new Visitor().visit(host.callback, { method: 'POST' }));
    await expectAccepted(host);
  });

  it('must be text, also in a JSON body', async () => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    for (const body of ['[]', '{}', '{"state":["a"]}', '{"state":{"a":"b"}}', '{"state":null}']) {
      const reply = await post(visitor, host, body);
      expectRefusal(reply, 'state');
    }
    expect((await toHost(visitor, arrival)).status).toBe(303);
  });
});

async function post(visitor: Visitor, host: Host, body: string): Promise<Reply> {
  const sent = [...visitor.cookies('127.0.0.1')].map(([name, value]) => `${name}=${value}`).join('; ');
  const response = await fetch(host.callback, {
    method: 'POST',
    redirect: 'manual',
    headers: { 'content-type': 'application/json', cookie: sent },
    body,
  });
  return {
    status: response.status,
    headers: response.headers,
    text: await response.text(),
    location: undefined,
    setCookies: response.headers.getSetCookie(),
  };
}

/** A login of a tenant whose options change while the browser is at the provider. */
async function logInAcross(change: LoginOverrides): Promise<{ host: Host; visitor: Visitor; reply: Reply }> {
  let overrides: LoginOverrides = {};
  const host = await start({}, (callback) => ({
    tenants: { find: () => provider.tenantOptions(callback, { requireIss: false, ...overrides }) },
    allowedOrigins: () => true,
    resolveTenant: () => 'acme',
    secrets: [COOKIE_SECRET],
  }));
  const visitor = new Visitor();
  const arrival = await toProvider(visitor, host);
  overrides = change;
  host.app.get(TenantRegistry).forget('acme');
  return { host, visitor, reply: await toHost(visitor, arrival) };
}

describe('a pending login', () => {
  it('is finished after its tenant was read again, or changed in another option', async () => {
    for (const change of [{}, { clockTolerance: 60 }]) {
      const { host: at, visitor, reply } = await logInAcross(change);
      expect(reply.status).toBe(303);
      expect(await identityOf(visitor, at)).toMatchObject({ tenant: 'acme' });
    }
  });

  it.each<[string, LoginOverrides]>([
    ['issuer', { issuer: 'https://another.example' }],
    ['client', { clientId: 'another-web' }],
  ])('is refused by state once its tenant has another %s, and no code is redeemed', async (_, change) => {
    provider.redemptions.clear();
    const { host: at, visitor, reply } = await logInAcross(change);
    expectRefusal(reply, 'state');
    expect(provider.redemptions.size).toBe(0);
    expect(await identityOf(visitor, at)).toBeUndefined();
  });
});

describe.each<[HostKind, Flow]>([
  ['express', 'code id_token'],
  ['fastify', 'code token id_token'],
])('an error of a hybrid login on %s by %s', (kind, responseType) => {
  let host: Host;
  beforeAll(async () => {
    host = await start({ kind, login: { responseType } });
  });

  it.each([
    ['access_denied', 'denied'],
    ['server_error', 'provider'],
  ])('is told by GET and by POST: %s', async (error, reason) => {
    for (const method of ['GET', 'POST'] as const) {
      const visitor = new Visitor();
      const arrival = await toProvider(visitor, host);
      const early = copyOf(visitor, host);
      expectRefusal(await toHost(visitor, failed(arrival, error, method)), reason);
      expect(pendingLogins(visitor, host)).toEqual([]);
      expectRefusal(await toHost(early, arrival), 'state');
    }
  });

  it('ends nothing by another path or by HEAD', async () => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    const { parameters } = failed(arrival, 'access_denied');
    await visitor.visit(`${host.callback}?${parameters}`, { method: 'HEAD' });
    await visitor.visit(`${host.url}/auth/logout?${parameters}`, { method: 'POST' });
    expect((await toHost(visitor, arrival)).status).toBe(303);
  });
});

it('an error of the code flow is not told by POST, since its response is a GET', async () => {
  const host = await start({ kind: 'fastify' });
  const visitor = new Visitor();
  const arrival = await toProvider(visitor, host);
  expectRefusal(await toHost(visitor, failed(arrival, 'access_denied', 'POST')), 'state');
  expectRefusal(await toHost(visitor, failed(arrival, 'access_denied', 'GET')), 'denied');
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
    const startPortal = (responseType: Flow): Promise<Host> =>
      start({ kind, controllers: [PortalController] }, (callback) => ({
        tenants: { acme: provider.tenantOptions(callback, { responseType }) },
        secrets: [COOKIE_SECRET],
      }));
    [host, hybrid] = [await startPortal('code'), await startPortal('code id_token')];
  });
  afterEach(() => {
    told.length = 0;
  });

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
