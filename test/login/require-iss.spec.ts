import { beforeAll, describe, expect, it, jest } from '@jest/globals';
import { Controller, Get, Redirect, UseGuards } from '@nestjs/common';
import {
  CurrentIdentity,
  ExhibitorCallbackGuard,
  type ExhibitorIdentity,
  type TenantOptions,
} from '../../lib/index.js';
import { BoothController } from '../support/booth.controller.js';
import { clockOf } from '../support/clock.js';
import type { Host } from '../support/host.js';
import { loggedLines } from '../support/logged-lines.js';
import { answers, says } from '../support/provider-script.js';
import type { ScriptedProvider, LoginOverrides } from '../support/provider.js';
import { Visitor } from '../support/visitor.js';
import { withProvider, type Given, type OwnOptions } from './hosts.js';
import {
  arrive,
  copyOf,
  enter,
  expectAccepted,
  expectError,
  expectLoginRefused,
  expectRefusal,
  identityOf,
  isLoggedIn,
  logIn,
  logOut,
  loginCookies,
  toHost,
  toProvider,
} from './journey.js';

let honest: ScriptedProvider;
let attacker: ScriptedProvider;
const startOne = withProvider((first, second) => ([honest, attacker] = [first, second]));
const start = (own?: OwnOptions, given: Given = {}): Promise<Host> => startOne(given, own);

const withoutIss = { authorization: (all: URLSearchParams) => all.delete('iss') };
const withIssOf = ({ url }: ScriptedProvider) => ({
  authorization: (all: URLSearchParams) => all.set('iss', url),
});
const HONEST = '?tenant=honest';

describe('tenants of two providers', () => {
  const shared = (login: LoginOverrides = {}): Promise<Host> =>
    start((callback) => ({
      tenants: {
        honest: honest.tenantOptions(callback, login),
        // The callback ignores the query.
        attacker: attacker.tenantOptions(`${callback}?provider=attacker`, login),
      },
    }));
  const apart = (): Promise<Host> =>
    start(
      (callback, url) => ({
        tenants: {
          honest: honest.tenantOptions(callback),
          attacker: attacker.tenantOptions(`${url}/other/callback`),
        },
      }),
      { routes: 'other' },
    );

  it('that share a callback require the right iss in the response, also beside an error', async () => {
    const host = await shared();
    const denied = (issuer: string) => ({
      authorization: (all: URLSearchParams) => {
        all.delete('code');
        all.set('error', 'access_denied');
        all.set('iss', issuer);
      },
    });
    for (const [script, reason] of [
      [withoutIss, 'issuer'],
      [withIssOf(attacker), 'issuer'],
      [denied(attacker.url), 'issuer'],
      [denied(honest.url), 'denied'],
    ] as const) {
      honest.script = script;
      await expectLoginRefused(host, reason, HONEST);
    }
    honest.script = {};
    await enter(host, HONEST);
  });

  it('do not require it with requireIss: false', async () => {
    const host = await shared({ requireIss: false });
    honest.script = withoutIss;
    await enter(host, HONEST);
    honest.script = withIssOf(attacker);
    await expectLoginRefused(host, 'issuer', HONEST);
  });

  it('with callbacks of their own do not require it, and accept a response only at that of the login', async () => {
    const host = await apart();
    honest.script = withoutIss;
    attacker.script = withoutIss;
    await enter(host, HONEST);
    await enter(host, '?tenant=attacker');
    const { visitor, arrival } = await arrive(host, HONEST);
    const asked = attacker.count('/connect/token') + honest.count('/connect/token');
    expectRefusal(await toHost(visitor, { ...arrival, callback: `${host.url}/other/callback` }), 'state');
    expect(attacker.count('/connect/token') + honest.count('/connect/token')).toBe(asked);
    expect(loginCookies(visitor, host)).toHaveLength(1);
    expect((await toHost(visitor, arrival)).status).toBe(303);
  });

  it('of a source require it, since its other tenants are unknown, and those of one issuer do not', async () => {
    const source = await start((callback) => ({
      tenants: { find: (key) => (key === 'honest' ? honest.tenantOptions(callback) : undefined) },
      allowedOrigins: () => true,
    }));
    const siblings = await start((callback) => ({
      tenants: { honest: honest.tenantOptions(callback), two: honest.tenantOptions(callback) },
    }));
    honest.script = { ...withoutIss, metadata: answers({}, 404) };
    await expectLoginRefused(source, 'issuer', HONEST);
    await enter(siblings, HONEST);
    honest.script = {};
    await enter(source, HONEST);
  });

  it('receive no code of each other: the code of one provider is not sent to another', async () => {
    // RFC 9700 §4.4.1: the attacker's authorize endpoint sends the browser on to the honest provider.
    const { visitor, arrival } = await arrive(await shared(), '?tenant=attacker');
    const stolen = await honest.authorize(attacker.last('/connect/authorize').query);
    expect(stolen.get('state')).toBe(arrival.parameters.get('state'));
    const asked = attacker.count('/connect/token');
    expectRefusal(await toHost(visitor, { ...arrival, parameters: stolen }), 'issuer');
    expect(attacker.count('/connect/token')).toBe(asked);
  });

  it('give no identity of another tenant, even for the same person', async () => {
    const host = await shared();
    const visitor = await enter(host, HONEST);
    const statusAt = async (tenant: string): Promise<number> =>
      (await visitor.visit(`${host.url}/me?tenant=${tenant}`)).status;
    expect([await statusAt('honest'), await statusAt('attacker'), await statusAt('nobody')]).toEqual([
      200, 401, 404,
    ]);
  });
});

it('a tenant with the issuer, client, keys and callback of another is refused where allowedOrigins does not list its endpoints', async () => {
  const host = await start(
    (_callback, url) => {
      const callback = `${url}/portals/honest/auth/callback`;
      const tenants: Record<string, TenantOptions> = {
        honest: honest.tenantOptions(callback),
        // A tenant of a source chooses its options itself.
        attacker: attacker.tenantOptions(callback, { issuer: honest.url, keys: honest.jwks }),
      };
      return {
        tenants: { find: (key) => tenants[key] },
        resolveTenant: ({ params }) => params?.['tenant'],
        allowedOrigins: [honest.url],
      };
    },
    { routes: 'portals/:tenant/auth' },
  );
  host.app.useLogger(false);
  const asked = attacker.seen.length;
  expect((await new Visitor().visit(`${host.url}/portals/attacker/auth/login`)).status).toBe(500);
  expect(attacker.seen).toHaveLength(asked);
  await enter({ url: `${host.url}/portals/honest` });
});

describe('an identity', () => {
  let host: Host;
  beforeAll(async () => {
    host = await start();
  });

  it('is none of another host with the same secrets and client, whose authorize may be stricter', async () => {
    const admin = await start(undefined, { login: { authorize: () => false } });
    const visitor = await expectAccepted(host);
    expect(await identityOf(visitor, host)).toMatchObject({ redirectUri: host.callback });
    expect(await isLoggedIn(visitor, admin)).toBe(false);
    await expectLoginRefused(admin, 'not_authorized');
    const arrival = { ...(await toProvider(visitor, host)), callback: admin.callback };
    expectRefusal(await toHost(visitor, arrival), 'state');
  });

  it('is kept beside that of another service of the host name, by cookies.name', async () => {
    const admin = await start(undefined, { cookies: { name: 'admin' } });
    const visitor = await enter(host);
    const pending = await toProvider(visitor, host);
    await enter(admin, undefined, visitor);
    expect([...visitor.cookies().keys()]).toContain('admin-identity');
    expect([await isLoggedIn(visitor, admin), await isLoggedIn(visitor, host)]).toEqual([true, true]);
    await logOut(visitor, admin);
    expect([await isLoggedIn(visitor, admin), await isLoggedIn(visitor, host)]).toEqual([false, true]);
    expect((await toHost(visitor, pending)).status).toBe(303);
  });

  describe('is replaced by a new login in that browser', () => {
    it('that was started before it, in another tab', async () => {
      const { visitor, arrival: older } = await arrive(host);
      await enter(host, undefined, visitor);
      const copy = copyOf(visitor, host);
      expect((await toHost(visitor, older)).status).toBe(303);
      // Requests of the same person are under way.
      for (const isLeft of [true, false]) {
        expect([await isLoggedIn(visitor, host), await isLoggedIn(copy, host)]).toEqual([true, isLeft]);
        clockOf(host.app).skip(61_000);
      }
      clockOf(host.app).back();
    });

    it('unless that is refused', async () => {
      const visitor = await enter(host);
      honest.script = says({ nonce: 'another' });
      expectRefusal(await logIn(visitor, host), 'nonce');
      expect(await isLoggedIn(visitor, host)).toBe(true);
    });
  });
});

const logged = loggedLines();

describe('login.authorize', () => {
  const hostWith = (login: LoginOverrides, given: Given = {}): Promise<Host> =>
    start(undefined, { login, ...given });

  it('is called with the whole identity, once for each login', async () => {
    const authorize = jest.fn(async (_identity: ExhibitorIdentity) => true);
    await logIn(new Visitor(), await hostWith({ authorize }), '?eventId=event-1&returnTo=/page');
    const person = { issuer: honest.url, subject: 'pat', email: 'pat@example.com' };
    const login = { tenant: 'default', eventId: 'event-1', returnTo: '/page' };
    expect(authorize.mock.calls).toEqual([[expect.objectContaining({ ...person, ...login })]]);
  });

  it.each([false, Promise.resolve(false), undefined, 'yes'])(
    'refuses the login by returning %p, with a line for the operator',
    async (answer) => {
      const host = await hostWith({ authorize: () => answer as boolean });
      logged.warnings.length = 0;
      await expectLoginRefused(host, 'not_authorized');
      expect(logged.warnings).toEqual([
        'tenant.login.authorize: the user is refused (not_authorized): this function did not answer true',
      ]);
    },
  );

  it('gets all claims, of which keepClaims keeps some: at the callback and in later requests', async () => {
    const seen: unknown[] = [];
    honest.script = says({ department: 'sales' });
    @Controller()
    class ClaimsController extends BoothController {
      @Get('auth/callback')
      @UseGuards(ExhibitorCallbackGuard)
      @Redirect('/', 303)
      override callback(@CurrentIdentity() identity: ExhibitorIdentity): { url: string } {
        seen.push(identity.claims);
        return { url: '/' };
      }
    }
    for (const kind of ['express', 'fastify + @fastify/session'] as const) {
      const authorize = jest.fn((_identity: ExhibitorIdentity) => true);
      const host = await hostWith(
        { authorize, keepClaims: ['email'] },
        { kind, controllers: [ClaimsController] },
      );
      const visitor = await enter(host);
      expect(authorize.mock.calls[0]?.[0].claims).toMatchObject({ department: 'sales' });
      const kept = { email: 'pat@example.com', auth_time: expect.any(Number) };
      expect([seen.pop(), (await identityOf(visitor, host))?.claims]).toEqual([kept, kept]);
    }
  });

  it('fails the login with 500 where it throws, and with 504 where it hangs; it may reject later', async () => {
    const down = new Error('the directory is down');
    let fail: (error: Error) => void = () => undefined;
    const throwing = await hostWith({ authorize: () => Promise.reject(down) });
    const hanging = await hostWith(
      { authorize: () => new Promise<boolean>((_, reject) => (fail = reject)) },
      { tenantHttp: { deadline: 500 } },
    );
    const reply = await logIn(new Visitor(), throwing);
    expectError(reply, 500, 'service_unavailable');
    expect(reply.text).not.toContain('directory');
    const visitor = new Visitor();
    expectError(await logIn(visitor, hanging), 504, 'deadline_exceeded');
    fail(down);
    await new Promise(setImmediate);
    expect(await isLoggedIn(visitor, hanging)).toBe(false);
  });
});
