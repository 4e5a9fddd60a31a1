import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import {
  ExhibitorCallbackGuard,
  LoginFailedError,
  TenantRegistry,
  type ExhibitorError,
  type HttpContext,
  type StartedLogin,
} from '../../lib/index.js';
import { clockOf } from '../support/clock.js';
import type { Host, HostKind } from '../support/host.js';
import type { LoginOverrides, ScriptedProvider } from '../support/provider.js';
import { answers, says, sends } from '../support/provider-script.js';
import type { Reply, Visitor } from '../support/visitor.js';
import type { Flow } from './flows.js';
import { withProvider } from './hosts.js';
import {
  arrive,
  copyOf,
  expectLoginRefused,
  expectRefusal,
  identityOf,
  isLoggedIn,
  loginCookies,
  toHost,
  toProvider,
  type Arrival,
} from './journey.js';

let provider: ScriptedProvider;
const start = withProvider((started) => (provider = started));

/** The response with other parameters. */
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

/** A request to the callback in place of the response, after which the login can still be finished. */
type Attempt = [what: string, send: (visitor: Visitor, arrival: Arrival) => Promise<Reply>];

const OTHER_STATE = 'x'.repeat(43);
const LOGIN_TTL = 60_000;
const FLOWS_BY_KIND = [
  ['express', 'code'],
  ['fastify', 'code token id_token'],
] as const satisfies [HostKind, Flow][];

describe.each(FLOWS_BY_KIND)('the state of a login on %s by %s', (kind, responseType) => {
  let host: Host;
  beforeAll(async () => {
    host = await start({ kind, login: { responseType }, cookies: { loginTtl: LOGIN_TTL } });
  });

  const edited =
    (edit: (all: URLSearchParams) => void): Attempt[1] =>
    (visitor, arrival) =>
      toHost(visitor, changed(arrival, edit));
  const stateOf = (edit: (state: string) => string): Attempt[1] =>
    edited((all) => all.set('state', edit(all.get('state') ?? '')));
  const json =
    (body: unknown): Attempt[1] =>
    (visitor, { callback }) =>
      visitor.visit(callback, { json: body });
  const sent = responseType === 'code' ? ['code'] : ['code', 'id_token', 'access_token'];

  it.each<Attempt>([
    ['is required', edited((all) => all.delete('state'))],
    ['must be known', stateOf(() => OTHER_STATE)],
    ['must be unchanged', stateOf((state) => `${state}x`)],
    ['must not be empty', stateOf(() => '')],
    ...['state', 'iss', ...sent].map((name): Attempt => [
      `must not come with ${name} twice`,
      edited((all) => all.append(name, all.get(name) ?? '')),
    ]),
    ...sent.map((name): Attempt => [`must not come without ${name}`, edited((all) => all.delete(name))]),
    ['is required with an error', (visitor, { callback }) => visitor.visit(`${callback}?error=x`)],
    [
      'must be known with an error',
      (visitor, { callback }) => visitor.visit(`${callback}?error=access_denied&state=${OTHER_STATE}`),
    ],
    [
      'is accepted only by the method its login asked for',
      (visitor, arrival) =>
        toHost(visitor, { ...arrival, method: arrival.method === 'GET' ? 'POST' : 'GET' }),
    ],
    [
      'is not read from the query of a POST',
      (visitor, { callback, parameters }) => visitor.visit(`${callback}?${parameters}`, { method: 'POST' }),
    ],
    ['is missing in a bare visit', (visitor, { callback }) => visitor.visit(callback)],
    ['is missing in an empty form', (visitor, { callback }) => visitor.visit(callback, { method: 'POST' })],
    ...[[], {}, { state: ['a'] }, { state: { a: 'b' } }, { state: null }].map((body): Attempt => [
      `must be text: ${JSON.stringify(body)}`,
      json(body),
    ]),
  ])('%s: else the login is refused, and can still be finished', async (_, attempt) => {
    const { visitor, arrival } = await arrive(host);
    const tokens = provider.count('/connect/token');
    const refused = await attempt(visitor, arrival);
    expectAdvice(refused);
    expect(refused.setCookies.filter((cookie) => cookie.includes('exhibitor'))).toEqual([]);
    expect(provider.count('/connect/token')).toBe(tokens);
    expect((await toHost(visitor, arrival)).status).toBe(303);
    expect(await identityOf(visitor, host)).toMatchObject({ subject: 'pat' });
  });

  it.each(['HEAD', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'])(
    'is neither accepted nor spent by %s',
    async (method) => {
      const { visitor, arrival } = await arrive(host);
      const reply = await visitor.visit(`${arrival.callback}?${arrival.parameters}`, { method });
      expect(reply.status).toBe(method === 'HEAD' ? 204 : 404);
      expect(reply.setCookies).toEqual([]);
      expect((await toHost(visitor, arrival)).status).toBe(303);
    },
  );

  it('is accepted once, also of several requests at the same time, and a reload says what to do', async () => {
    const { visitor, arrival } = await arrive(host);
    const early = copyOf(visitor, host);
    const replies = await Promise.all(
      Array.from({ length: 8 }, () => toHost(copyOf(visitor, host), arrival)),
    );
    expect(replies.map(({ status }) => status).toSorted()).toEqual([303, ...Array<number>(7).fill(401)]);
    expect(provider.redemptions.get(arrival.parameters.get('code') ?? '')).toBe(1);

    const next = await toProvider(visitor, host);
    const late = copyOf(visitor, host);
    expect((await toHost(visitor, next)).status).toBe(303);
    const before = await identityOf(visitor, host);
    const tokens = provider.count('/connect/token');
    expectAdvice(await toHost(visitor, next));
    // The cookie of the login may still be there: Back out of a cache, or two clicks.
    expectAdvice(await toHost(late, next));
    expectAdvice(await toHost(early, arrival));
    expect(provider.count('/connect/token')).toBe(tokens);
    expect(await identityOf(visitor, host)).toEqual(before);
    expect(await isLoggedIn(late, host)).toBe(false);
  });

  it('expires with loginTtl', async () => {
    const { visitor, arrival } = await arrive(host);
    const clock = clockOf(host.app);
    clock.skip(LOGIN_TTL + 1);
    expectRefusal(await toHost(visitor, arrival), 'state');
    clock.back();
    expect((await toHost(visitor, arrival)).status).toBe(303);
  });

  it.each([
    ['access_denied', 'denied'],
    ['server_error', 'provider'],
  ])('is spent by a real error, by GET and, of a form post, by POST: %s', async (error, reason) => {
    for (const method of ['GET', 'POST'] as const) {
      const isTold = method === 'GET' || responseType !== 'code';
      const { visitor, arrival } = await arrive(host);
      const early = copyOf(visitor, host);
      // Another path or method ends nothing.
      const { parameters } = failed(arrival, error);
      await visitor.visit(`${host.callback}?${parameters}`, { method: 'HEAD' });
      await visitor.visit(`${host.url}/auth/logout?${parameters}`, { method: 'POST' });
      expectRefusal(await toHost(visitor, failed(arrival, error, method)), isTold ? reason : 'state');
      expect(loginCookies(visitor, host)).toHaveLength(isTold ? 0 : 1);
      expect((await toHost(early, arrival)).status).toBe(isTold ? 401 : 303);
    }
  });
});

describe('a started login of a tenant whose options change', () => {
  it.each<[what: string, change: LoginOverrides, isFinished: boolean]>([
    ['is finished where they were only read again', {}, true],
    ['is finished after another option changed', { clockTolerance: 60 }, true],
    ['is refused by state once the issuer is another', { issuer: 'https://another.example' }, false],
    ['is refused by state once the client is another', { clientId: 'another-web' }, false],
    [
      'is refused by state once the callback is another',
      { redirectUri: 'http://127.0.0.1:1/auth/callback' },
      false,
    ],
  ])('%s', async (_what, change, isFinished) => {
    let overrides: LoginOverrides = {};
    const host = await start({}, (callback) => ({
      tenants: { find: () => provider.tenantOptions(callback, { requireIss: false, ...overrides }) },
      allowedOrigins: () => true,
      resolveTenant: () => 'acme',
    }));
    const { visitor, arrival } = await arrive(host);
    overrides = change;
    host.app.get(TenantRegistry).forget('acme');
    provider.redemptions.clear();
    const reply = await toHost(visitor, arrival);
    if (isFinished) {
      expect(await identityOf(visitor, host)).toMatchObject({ tenant: 'acme' });
    } else {
      expectRefusal(reply, 'state');
    }
    expect(provider.redemptions.size).toBe(isFinished ? 1 : 0);
  });
});

/** What `onLoginFailed` was told, in order. */
const told: { error: ExhibitorError; login: StartedLogin | undefined }[] = [];

/** Leads to a page of its own, but leaves `nonce` to the package. */
@Injectable()
class PortalCallbackGuard extends ExhibitorCallbackGuard {
  protected override async onLoginFailed(http: HttpContext, error: ExhibitorError): Promise<void> {
    told.push({ error, login: await this.getStartedLogin(http) });
    await sleep(5);
    return error instanceof LoginFailedError && error.reason === 'nonce'
      ? super.onLoginFailed(http, error)
      : this.redirect(http, `/failed?code=${error.code}`);
  }
}

describe.each(['express', 'fastify'] as const)('onLoginFailed of a host on %s', (kind) => {
  let host: Host;
  let hybrid: Host;
  beforeAll(async () => {
    const routes = { path: 'auth', guards: { callback: PortalCallbackGuard } };
    const startPortal = (responseType: Flow): Promise<Host> =>
      start({ kind, controllers: [], routes }, (callback) => ({
        tenants: { acme: provider.tenantOptions(callback, { responseType }) },
      }));
    [host, hybrid] = [await startPortal('code'), await startPortal('code id_token')];
  });
  afterEach(() => {
    told.length = 0;
  });

  const QUERY = '?eventId=world-2026&returnTo=%2Fevents%2Fworld%20fair';
  const STARTED = { tenant: 'acme', eventId: 'world-2026', returnTo: '/events/world%20fair' };

  function expectPage(reply: Reply, code = 'login_failed', status = 302): void {
    const { pathname, searchParams } = new URL(reply.location ?? '', host.url);
    expect([reply.status, pathname, searchParams.get('code')]).toEqual([status, '/failed', code]);
    expect(reply.headers.get('cache-control')).toBe('private, no-store');
  }

  it.each([
    ['GET', QUERY, STARTED],
    ['POST', QUERY, STARTED],
    // The host has its own default.
    ['GET', '?eventId=world-2026', { tenant: 'acme', eventId: 'world-2026' }],
  ] as const)('leads a person who cancels to a page, by %s, and is told %s', async (method, query, login) => {
    const at = method === 'GET' ? host : hybrid;
    const { visitor, arrival } = await arrive(at, query);
    const reply = await toHost(visitor, failed(arrival, 'access_denied', method));
    expectPage(reply, 'login_failed', method === 'GET' ? 302 : 303);
    expect(loginCookies(visitor, at)).toEqual([]);
    const error = expect.objectContaining({ reason: 'denied', tenant: 'acme' });
    expect(told).toEqual([{ error, login }]);
  });

  it('is told what the provider said, and the visitor is not', async () => {
    const { visitor, arrival } = await arrive(host, QUERY);
    const said = { error: 'unauthorized_client', error_description: 'PAR only' };
    provider.script = { token: answers(said, 400) };
    const reply = await toHost(visitor, arrival);
    expectPage(reply);
    expect(JSON.stringify([...reply.headers, reply.text])).not.toMatch(/PAR|unauthorized/);
    const oauth = { oauthError: 'unauthorized_client', oauthErrorDescription: 'PAR only', status: 400 };
    const error = expect.objectContaining({ reason: 'provider', ...oauth });
    expect(told).toEqual([{ error, login: STARTED }]);
  });

  it.each([
    ['500', 'service_unavailable', answers({}, 500)],
    ['429', 'rate_limited', answers({}, 429)],
    ['a reset', 'service_unavailable', sends({ fault: 'reset' })],
  ])('hears of a provider that is down, too: %s', async (_, code, token) => {
    const { visitor, arrival } = await arrive(host, QUERY);
    provider.script = { token };
    expectPage(await toHost(visitor, arrival), code);
    expect(told).toEqual([{ error: expect.objectContaining({ code }), login: STARTED }]);
  });

  it('knows the login of each state that opens, finished or expired, and none where it is forged or missing', async () => {
    const { visitor, arrival } = await arrive(host, QUERY);
    const early = copyOf(visitor, host);
    expect((await toHost(visitor, arrival)).location).toBe(`${host.url}${STARTED.returnTo}`);
    expect(told).toEqual([]);
    expectPage(await toHost(visitor, arrival));
    expectPage(await visitor.visit(`${host.callback}?error=access_denied&state=${OTHER_STATE}`));
    expectPage(await visitor.visit(host.callback));
    // The cookie is still there, but its state was spent.
    expectPage(await toHost(early, arrival));
    const { visitor: late, arrival: expired } = await arrive(host, QUERY);
    clockOf(host.app).skip(3_600_001);
    expectPage(await toHost(late, expired));
    clockOf(host.app).back();
    expect(told.map(({ login }) => login)).toEqual([STARTED, undefined, undefined, STARTED, STARTED]);
    expect(told.map(({ error }) => (error as LoginFailedError).reason)).toEqual(Array(5).fill('state'));
  });

  it('may leave the reply to the package', async () => {
    provider.script = says({ nonce: 'other' });
    await expectLoginRefused(host, 'nonce');
    expect(told).toHaveLength(1);
  });
});
