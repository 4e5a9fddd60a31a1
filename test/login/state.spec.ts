import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { ScriptedProvider, type LoginOverrides } from '../support/provider.js';
import { COOKIE_SECRET, startHost, type Host, type HostKind } from '../support/host.js';
import { Visitor, type Reply } from '../support/visitor.js';
import type { Flow } from './flows.js';
import {
  copyOf,
  expectAccepted,
  expectRefusal,
  identityOf,
  pendingLogins,
  toHost,
  toProvider,
  type Arrival,
} from './journey.js';
import { clockOf } from '../support/clock.js';
import { TenantRegistry } from '../../lib/index.js';

let provider: ScriptedProvider;
beforeAll(async () => {
  provider = await ScriptedProvider.start();
});
afterEach(() => {
  provider.script = {};
});
afterAll(() => provider?.stop());

const CASES: readonly [HostKind, Flow][] = [
  ['express', 'code'],
  ['fastify', 'code token id_token'],
];

describe.each(CASES)('the state of a login on %s by %s', (kind, responseType) => {
  let host: Host;
  const LOGIN_TTL = 60_000;
  beforeAll(async () => {
    host = await startHost({
      kind,
      options: (callback) => ({
        tenant: provider.tenantOptions(callback, { responseType }),
        secrets: [COOKIE_SECRET],
        cookies: { loginTtl: LOGIN_TTL },
      }),
    });
  });
  afterAll(() => host?.close());

  const changed = (arrival: Arrival, edit: (parameters: URLSearchParams) => void): Arrival => {
    const parameters = new URLSearchParams(arrival.parameters);
    edit(parameters);
    return { ...arrival, parameters };
  };

  /** Expects a refusal that sets no cookie, after which the pending login can still be finished. */
  async function expectHarmless(
    edit: (arrival: Arrival, visitor: Visitor) => Arrival | Promise<Arrival>,
  ): Promise<void> {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    const tokens = provider.count('/connect/token');
    const refused = await toHost(visitor, await edit(arrival, visitor));
    expectRefusal(refused, 'state');
    expect(refused.setCookies.filter((cookie) => cookie.includes('exhibitor'))).toEqual([]);
    expect(provider.count('/connect/token')).toBe(tokens);
    expect(await identityOf(visitor, host)).toBeUndefined();
    expect((await toHost(visitor, arrival)).status).toBe(303);
    expect(await identityOf(visitor, host)).toMatchObject({ subject: 'pat' });
  }

  const without = (name: string) => (arrival: Arrival) => changed(arrival, (all) => all.delete(name));
  const twice = (name: string) => (arrival: Arrival) =>
    changed(arrival, (all) => all.append(name, all.get(name) ?? ''));

  it('is required', () => expectHarmless(without('state')));

  it('must be known', () =>
    expectHarmless((arrival) => changed(arrival, (all) => all.set('state', 'x'.repeat(43)))));

  it('must be unchanged', () =>
    expectHarmless((arrival) => changed(arrival, (all) => all.set('state', `${all.get('state')}x`))));

  it('must not be empty', () => expectHarmless((arrival) => changed(arrival, (all) => all.set('state', ''))));

  it('must not be sent twice', () => expectHarmless(twice('state')));

  it.each(responseType === 'code' ? ['code', 'iss'] : ['code', 'id_token', 'access_token', 'iss'])(
    'does not accept a response with %s twice',
    (name) => expectHarmless(twice(name)),
  );

  it.each(responseType === 'code' ? ['code'] : ['code', 'id_token', 'access_token'])(
    'does not accept a response without %s',
    (name) => expectHarmless(without(name)),
  );

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

  it('does not change the identity when the back button repeats it', async () => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    expect((await toHost(visitor, arrival)).status).toBe(303);
    const before = await identityOf(visitor, host);
    expectRefusal(await toHost(visitor, arrival), 'state');
    expect(await identityOf(visitor, host)).toEqual(before);
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

  it('prevents a forged error from ending a login', async () => {
    await expectHarmless((arrival) => ({
      ...arrival,
      parameters: new URLSearchParams({ error: 'access_denied' }),
    }));
    await expectHarmless((arrival) =>
      changed(arrival, (all) => {
        all.delete('code');
        all.set('error', 'access_denied');
        all.set('state', 'x'.repeat(43));
      }),
    );
  });

  it('allows a real error to end the login', async () => {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    const denied = changed(arrival, (all) => {
      all.delete('code');
      all.set('error', 'access_denied');
    });
    expectRefusal(await toHost(visitor, denied), 'denied');
    expectRefusal(await toHost(visitor, arrival), 'state');
  });

  it('is accepted only by the method its login asked for', () =>
    expectHarmless((arrival) => ({ ...arrival, method: arrival.method === 'GET' ? 'POST' : 'GET' })));

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
    expectRefusal(await new Visitor().visit(host.callback), 'state');
    expectRefusal(await new Visitor().visit(host.callback, { method: 'POST' }), 'state');
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

let host: Host | undefined;
afterEach(async () => {
  await host?.close();
  host = undefined;
});

/** A login of a tenant whose options change while the browser is at the provider. */
async function logInAcross(change: LoginOverrides): Promise<{ host: Host; visitor: Visitor; reply: Reply }> {
  let overrides: LoginOverrides = {};
  const started = await startHost({
    options: (callback) => ({
      tenants: { find: () => provider.tenantOptions(callback, { requireIss: false, ...overrides }) },
      allowedOrigins: () => true,
      resolveTenant: () => 'acme',
      secrets: [COOKIE_SECRET],
    }),
  });
  host = started;
  const visitor = new Visitor();
  const arrival = await toProvider(visitor, started);
  overrides = change;
  started.app.get(TenantRegistry).forget('acme');
  return { host: started, visitor, reply: await toHost(visitor, arrival) };
}

describe('a pending login', () => {
  it('is finished after its tenant was read again, or changed in another option', async () => {
    for (const change of [{}, { clockTolerance: 60 }]) {
      const { host: at, visitor, reply } = await logInAcross(change);
      expect(reply.status).toBe(303);
      expect(await identityOf(visitor, at)).toMatchObject({ tenant: 'acme' });
      await at.close();
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
