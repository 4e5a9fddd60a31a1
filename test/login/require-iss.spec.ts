import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Controller, Get, Logger, Post, Redirect, UseGuards } from '@nestjs/common';
import {
  CurrentIdentity,
  ExhibitorCallbackGuard,
  ExhibitorLoginGuard,
  type ExhibitorIdentity,
  type ExhibitorModuleOptions,
  type TenantOptions,
} from '../../lib/index.js';
import { BoothController } from '../support/booth.controller.js';
import { clockOf } from '../support/clock.js';
import { HOST_KINDS, type Host, type HostKind } from '../support/host.js';
import type { OtherOptions } from '../support/module-options.js';
import { ScriptedProvider, type LoginOverrides } from '../support/provider.js';
import { Visitor } from '../support/visitor.js';
import { withProvider, type Given } from './hosts.js';
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

/** A second callback, for hosts with one callback for each provider. */
@Controller()
class OtherCallback {
  @Get('other/callback')
  @UseGuards(ExhibitorCallbackGuard)
  @Redirect('/', 303)
  callback(@CurrentIdentity() { returnTo }: ExhibitorIdentity): { url: string } {
    return { url: returnTo ?? '/' };
  }
}

/** A login and a callback for each tenant, by its path. */
@Controller('portals/:tenant/auth')
class PortalController {
  @Get('login')
  @UseGuards(ExhibitorLoginGuard)
  login(): void {}

  @Get('callback')
  @UseGuards(ExhibitorCallbackGuard)
  @Redirect('/', 303)
  callback(): void {}

  @Post('callback')
  @UseGuards(ExhibitorCallbackGuard)
  @Redirect('/', 303)
  formCallback(): void {}
}

let honest: ScriptedProvider;
let attacker: ScriptedProvider;
const startOne = withProvider((started) => (honest = started));
beforeAll(async () => {
  attacker = await ScriptedProvider.start();
});
afterEach(() => {
  attacker.script = {};
});
afterAll(() => attacker?.stop());

const controllers = [BoothController, OtherCallback, PortalController];

/** A host with one tenant of the honest provider. */
const startWith = (given: Given = {}): Promise<Host> => startOne({ controllers, ...given });

const start = (
  kind: HostKind,
  own: (callback: string, url: string) => ExhibitorModuleOptions,
): Promise<Host> =>
  startOne(
    {
      kind,
      controllers,
      resolveTenant: ({ query }) => (typeof query['tenant'] === 'string' ? query['tenant'] : undefined),
    },
    own,
  );

const KINDS: readonly HostKind[] = ['express', 'fastify'];
const withoutIss = { authorization: (all: URLSearchParams) => all.delete('iss') };

describe('tenants of two providers', () => {
  const shared = (login: LoginOverrides = {}) =>
    start('express', (callback) => ({
      tenants: {
        honest: honest.tenantOptions(callback, login),
        attacker: attacker.tenantOptions(callback, login),
      },
    }));

  it('that share a callback require the right iss in the response', async () => {
    const host = await shared();
    honest.script = withoutIss;
    expectRefusal(await logIn(new Visitor(), host, '?tenant=honest'), 'issuer');
    honest.script = { authorization: (all) => all.set('iss', attacker.url) };
    expectRefusal(await logIn(new Visitor(), host, '?tenant=honest'), 'issuer');
    honest.script = {};
    expect((await logIn(new Visitor(), host, '?tenant=honest')).status).toBe(303);
  });

  it('believe no error of a response with the iss of another provider', async () => {
    const host = await shared();
    const denied = (issuer: string) => (all: URLSearchParams) => {
      all.delete('code');
      all.set('error', 'access_denied');
      all.set('iss', issuer);
    };
    honest.script = { authorization: denied(attacker.url) };
    expectRefusal(await logIn(new Visitor(), host, '?tenant=honest'), 'issuer');
    honest.script = { authorization: denied(honest.url) };
    expectRefusal(await logIn(new Visitor(), host, '?tenant=honest'), 'denied');
  });

  it('do not require it with requireIss: false', async () => {
    const host = await shared({ requireIss: false });
    honest.script = withoutIss;
    expect((await logIn(new Visitor(), host, '?tenant=honest')).status).toBe(303);
    honest.script = { authorization: (all) => all.set('iss', attacker.url) };
    expectRefusal(await logIn(new Visitor(), host, '?tenant=honest'), 'issuer');
  });

  it('with callbacks of their own do not require it', async () => {
    const host = await start('express', (callback, url) => ({
      tenants: {
        honest: honest.tenantOptions(callback),
        attacker: attacker.tenantOptions(`${url}/other/callback`),
      },
    }));
    honest.script = withoutIss;
    attacker.script = withoutIss;
    expect((await logIn(new Visitor(), host, '?tenant=honest')).status).toBe(303);
    expect((await logIn(new Visitor(), host, '?tenant=attacker')).status).toBe(303);
  });

  it('with callbacks of their own accept a response only at the callback of the login', async () => {
    const host = await start('express', (callback, url) => ({
      tenants: {
        honest: honest.tenantOptions(callback),
        attacker: attacker.tenantOptions(`${url}/other/callback`),
      },
    }));
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host, '?tenant=honest');
    const asked = attacker.count('/connect/token') + honest.count('/connect/token');
    expectRefusal(await toHost(visitor, { ...arrival, callback: `${host.url}/other/callback` }), 'state');
    expect(attacker.count('/connect/token') + honest.count('/connect/token')).toBe(asked);
    expect(pendingLogins(visitor, host)).toHaveLength(1);
    expect((await toHost(visitor, arrival)).status).toBe(303);
  });

  it('of a source require it, since its other tenants are unknown', async () => {
    const host = await start('express', (callback) => ({
      tenants: { find: (key) => (key === 'honest' ? honest.tenantOptions(callback) : undefined) },
      allowedOrigins: () => true,
    }));
    honest.script = withoutIss;
    expectRefusal(await logIn(new Visitor(), host, '?tenant=honest'), 'issuer');
    honest.script = {};
    expect((await logIn(new Visitor(), host, '?tenant=honest')).status).toBe(303);
  });

  it('of one issuer do not require it', async () => {
    const host = await start('express', (callback) => ({
      tenants: { one: honest.tenantOptions(callback), two: honest.tenantOptions(callback) },
    }));
    honest.script = withoutIss;
    expect((await logIn(new Visitor(), host, '?tenant=two')).status).toBe(303);
  });

  it('receive no code of each other: the code of one provider is not sent to another', async () => {
    const host = await shared();
    const visitor = new Visitor();
    // RFC 9700 §4.4.1: the attacker's authorize endpoint sends the browser on to the honest provider.
    const started = await toProvider(visitor, host, '?tenant=attacker');
    const state = started.parameters.get('state') ?? '';
    const { query } = attacker.last('/connect/authorize');
    const stolen = await honest.authorize(query);
    expect(stolen.get('state')).toBe(state);
    const asked = attacker.count('/connect/token');
    expectRefusal(await toHost(visitor, { ...started, parameters: stolen }), 'issuer');
    expect(attacker.count('/connect/token')).toBe(asked);
  });

  it('give no identity of another tenant, even for the same person', async () => {
    const host = await shared();
    const visitor = new Visitor();
    await logIn(visitor, host, '?tenant=honest');
    expect((await visitor.visit(`${host.url}/me?tenant=honest`)).status).toBe(200);
    expect((await visitor.visit(`${host.url}/me?tenant=attacker`)).status).toBe(401);
    expect((await visitor.visit(`${host.url}/me?tenant=nobody`)).status).toBe(404);
  });
});

const PORTALS = [
  { kind: 'express', responseType: 'code' },
  { kind: 'fastify', responseType: 'code id_token' },
] as const;

describe.each(PORTALS)('a tenant with the issuer of another, $responseType on $kind', (given) => {
  const { kind, responseType } = given;
  beforeEach(() => void jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined));
  afterEach(() => void jest.restoreAllMocks());

  /** The attacker copies everything but the endpoints of the honest tenant: a tenant of a source chooses its options itself. */
  const portals = (options: OtherOptions) =>
    start(kind, (_callback, url) => {
      const callback = `${url}/portals/honest/auth/callback`;
      const tenants: Record<string, TenantOptions> = {
        honest: honest.tenantOptions(callback, { responseType }),
        attacker: attacker.tenantOptions(callback, { responseType, issuer: honest.url, keys: honest.jwks }),
      };
      return {
        tenants: { find: (key) => tenants[key] },
        resolveTenant: ({ params }) => params?.['tenant'],
        ...options,
      };
    });

  const portal = ({ url }: Host, tenant: string): { url: string } => ({ url: `${url}/portals/${tenant}` });

  /**
   * A login of the victim at the attacker's tenant, whose authorize endpoint sends the browser on to the honest provider with
   * the challenge of a login that the attacker has started at the honest tenant.
   */
  async function mixUp(
    host: Host,
    victim: Visitor,
    thief: Visitor,
  ): Promise<{ own: Arrival; mixed: Arrival }> {
    const own = await toProvider(thief, portal(host, 'honest'));
    const { query: wanted } = honest.last('/connect/authorize');
    await toProvider(victim, portal(host, 'attacker'));
    const query = new URLSearchParams(attacker.last('/connect/authorize').query);
    // The nonce of a front-channel ID token is compared before the code is redeemed.
    for (const name of responseType === 'code' ? ['code_challenge', 'nonce'] : ['code_challenge']) {
      query.set(name, wanted.get(name) ?? '');
    }
    return { own, mixed: { ...own, parameters: await honest.authorize(query) } };
  }

  const codeOf = ({ parameters }: Arrival): string | null => parameters.get('code');

  it("receives the codes of the other's users where allowedOrigins accepts an origin that it controls", async () => {
    const host = await portals({ allowedOrigins: () => true });
    const [victim, thief] = [new Visitor(), new Visitor()];
    const { own, mixed } = await mixUp(host, victim, thief);
    expectRefusal(await toHost(victim, mixed), 'provider');
    expect(attacker.last('/connect/token').form.get('code')).toBe(codeOf(mixed));
    if (responseType === 'code') {
      own.parameters.set('code', codeOf(mixed) ?? '');
      expect((await toHost(thief, own)).status).toBe(303);
    }
  });

  it('is refused where allowedOrigins does not list its endpoints', async () => {
    jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
    const host = await portals({ allowedOrigins: [honest.url] });
    const asked = attacker.seen.length;
    expect((await new Visitor().visit(`${host.url}/portals/attacker/auth/login`)).status).toBe(500);
    expect(attacker.seen).toHaveLength(asked);
    expect((await logIn(new Visitor(), portal(host, 'honest'))).status).toBe(303);
  });
});

describe('an identity', () => {
  const changes: readonly [
    what: string,
    change: (options: ReturnType<ScriptedProvider['tenantOptions']>) => void,
  ][] = [
    ['issuer', ({ login }) => void (login && (login.issuer = 'https://login.example.com'))],
    ['client', ({ login }) => void (login && Object.assign(login, { clientId: 'another-web' }))],
    ['tenant id', (options) => void (options.tenantId = 'another-tenant')],
  ];

  it.each(changes)('ends when the %s of its tenant changes', async (_what, change) => {
    const before = await startWith();
    const { callback } = before;
    const same = await startWith({ redirectUri: callback });
    const changed = await start('express', () => {
      const tenant = honest.tenantOptions(callback);
      change(tenant);
      return { tenant };
    });
    const visitor = new Visitor();
    await logIn(visitor, before);
    expect(await identityOf(visitor, same)).toMatchObject({ subject: 'pat' });
    expect(await identityOf(visitor, changed)).toBeUndefined();
  });

  it('is none of another host with the same secrets and client, whose authorize may be stricter', async () => {
    const portal = await startWith();
    const admin = await startWith({ login: { authorize: () => false } });
    const visitor = await expectAccepted(portal);
    expect(await identityOf(visitor, portal)).toMatchObject({ redirectUri: portal.callback });
    expect(await identityOf(visitor, admin)).toBeUndefined();
    expectRefusal(await logIn(new Visitor(), admin), 'not_authorized');
  });

  it('is kept beside that of another service of the host name, by cookies.name', async () => {
    const portal = await startWith();
    const admin = await startWith({ cookies: { name: 'admin' } });
    const visitor = await expectAccepted(portal);
    const pending = await toProvider(visitor, portal);
    const own = await toProvider(visitor, admin);
    expect((await toHost(visitor, own)).status).toBe(303);
    expect([...visitor.cookies('127.0.0.1').keys()]).toContain('admin-identity');
    expect(await identityOf(visitor, admin)).toBeDefined();
    expect(await identityOf(visitor, portal)).toBeDefined();
    await visitor.visit(`${admin.url}/auth/logout`, { method: 'POST' });
    expect(await identityOf(visitor, admin)).toBeUndefined();
    expect(await identityOf(visitor, portal)).toBeDefined();
    expect((await toHost(visitor, pending)).status).toBe(303);
  });

  it('ends when the key of its tenant changes', async () => {
    const before = await start('express', (callback) => ({ tenants: { a: honest.tenantOptions(callback) } }));
    const renamed = await start('express', (callback) => ({
      tenants: { b: honest.tenantOptions(callback) },
    }));
    const visitor = new Visitor();
    await logIn(visitor, before);
    expect(await identityOf(visitor, before)).toBeDefined();
    expect(await identityOf(visitor, renamed)).toBeUndefined();
  });

  it('is replaced by a new login in that browser', async () => {
    const host = await startWith();
    const visitor = new Visitor();
    await logIn(visitor, host);
    const first = await identityOf(visitor, host);
    const copy = copyOf(visitor, host);
    honest.script = { backToken: { claims: (claims) => void (claims['sub'] = 'quinn') } };
    await logIn(visitor, host);
    const second = await identityOf(visitor, host);
    expect(second).toMatchObject({ subject: 'quinn' });
    expect(second?.id).not.toBe(first?.id);
    expect(await identityOf(copy, host)).toBeUndefined();
  });

  it('is replaced by a new login whose callback brings no cookie of it, as a form of another site', async () => {
    const host = await startWith({ login: { responseType: 'code id_token' } });
    const visitor = await expectAccepted(host);
    const copy = copyOf(visitor, host);
    const arrival = await toProvider(visitor, host);
    visitor.cookies('127.0.0.1').delete('exhibitor-identity');
    expect((await toHost(visitor, arrival)).status).toBe(303);
    expect(await identityOf(visitor, host)).toMatchObject({ subject: 'pat' });
    expect(await identityOf(copy, host)).toBeUndefined();
  });

  it('is replaced by a login that was started before it, in another tab', async () => {
    const host = await startWith();
    const visitor = new Visitor();
    const older = await toProvider(visitor, host);
    expect((await logIn(visitor, host)).status).toBe(303);
    const copy = copyOf(visitor, host);
    expect(await identityOf(copy, host)).toBeDefined();
    expect((await toHost(visitor, older)).status).toBe(303);
    expect(await identityOf(visitor, host)).toMatchObject({ subject: 'pat' });
    expect(await identityOf(copy, host)).toBeUndefined();
  });

  it('stays where the new login is refused', async () => {
    const host = await startWith();
    const visitor = await expectAccepted(host);
    honest.script = { backToken: { claims: (claims) => void (claims['nonce'] = 'another') } };
    expectRefusal(await logIn(visitor, host), 'nonce');
    expect(await identityOf(visitor, host)).toMatchObject({ subject: 'pat' });
  });
});

describe.each(HOST_KINDS)('a logout on %s', (kind) => {
  it('ends the identity also for a copy of its cookie', async () => {
    const host = await startWith({ kind });
    const visitor = await expectAccepted(host);
    const thief = copyOf(visitor, host);
    const other = await expectAccepted(host);
    expect(await identityOf(thief, host)).toMatchObject({ subject: 'pat' });
    expect((await visitor.visit(`${host.url}/auth/logout`, { method: 'POST' })).status).toBe(303);
    expect(await identityOf(visitor, host)).toBeUndefined();
    expect(await identityOf(thief, host)).toBeUndefined();
    // Another login of the same person continues.
    expect(await identityOf(other, host)).toMatchObject({ subject: 'pat' });
  });
});

describe.each(KINDS)('a logout on %s', (kind) => {
  it('is not caused by another site, by GET or by a form', async () => {
    const host = await startWith({ kind });
    const visitor = await expectAccepted(host);
    const attempts = [
      visitor.visit(`${host.url}/auth/logout`),
      visitor.visit(`${host.url}/auth/logout`, {
        method: 'POST',
        headers: { 'sec-fetch-site': 'cross-site' },
      }),
      visitor.visit(`${host.url}/auth/logout`, {
        method: 'POST',
        headers: { 'sec-fetch-site': 'same-site' },
      }),
      visitor.visit(`${host.url}/auth/logout`, {
        method: 'POST',
        headers: { origin: 'https://evil.example' },
      }),
      visitor.visit(`${host.url}/auth/logout`, { method: 'POST', headers: { origin: 'null' } }),
    ];
    expect((await Promise.all(attempts)).map(({ status }) => status)).toEqual([404, 400, 400, 400, 400]);
    expect(await identityOf(visitor, host)).toMatchObject({ subject: 'pat' });
  });

  it('is accepted without a login', async () => {
    const host = await startWith({ kind });
    expect((await new Visitor().visit(`${host.url}/auth/logout`, { method: 'POST' })).status).toBe(303);
  });
});

describe.each(HOST_KINDS.filter((kind) => kind.includes('session')))(
  'a session of the host on %s',
  (kind) => {
    it('keeps the identity no longer than its lifetime', async () => {
      const host = await startWith({ kind, cookies: { identityTtl: 3_600_000 } });
      const visitor = await expectAccepted(host);
      const clock = clockOf(host.app);
      clock.skip(3_599_000);
      expect(await identityOf(visitor, host)).toMatchObject({ subject: 'pat' });
      clock.skip(2_000);
      expect(await identityOf(visitor, host)).toBeUndefined();
    });

    it('gets a new id at login and at logout, so that a fixed id is worthless', async () => {
      const host = await startWith({ kind });
      const visitor = new Visitor();
      await visitor.visit(`${host.url}/me`);
      const names = () => [...visitor.cookies('127.0.0.1')].filter(([name]) => !name.startsWith('exhibitor'));
      const planted = copyOf(visitor, host);
      const [[name, before] = ['', '']] = names();
      await logIn(visitor, host);
      const during = visitor.cookies('127.0.0.1').get(name);
      expect([before, during]).toEqual([expect.any(String), expect.any(String)]);
      expect(during).not.toBe(before);
      expect(await identityOf(visitor, host)).toMatchObject({ subject: 'pat' });
      expect(await identityOf(planted, host)).toBeUndefined();
      const former = copyOf(visitor, host);
      await logIn(visitor, host);
      expect(await identityOf(visitor, host)).toMatchObject({ subject: 'pat' });
      expect(await identityOf(former, host)).toBeUndefined();
      expect([...visitor.cookies('127.0.0.1').keys()]).not.toContain('exhibitor-identity');
      await visitor.visit(`${host.url}/auth/logout`, { method: 'POST' });
      expect(visitor.cookies('127.0.0.1').get(name)).not.toBe(during);
      expect(await identityOf(visitor, host)).toBeUndefined();
    });
  },
);

describe('login.authorize', () => {
  const hostWith = (login: LoginOverrides): Promise<Host> => startWith({ login });

  it('is called with the whole identity, once for each login', async () => {
    const authorize = jest.fn(async (_identity: ExhibitorIdentity) => true);
    const host = await hostWith({ authorize });
    await logIn(new Visitor(), host, '?eventId=event-1&returnTo=/page');
    expect(authorize.mock.calls).toEqual([
      [
        expect.objectContaining({
          issuer: honest.url,
          subject: 'pat',
          email: 'pat@example.com',
          tenant: 'default',
          eventId: 'event-1',
          returnTo: '/page',
        }),
      ],
    ]);
  });

  it.each([
    ['false', () => false],
    ['a promise of false', async () => false],
    ['nothing', () => undefined as unknown as boolean],
    ['a truthy value that is not true', () => 'yes' as unknown as boolean],
  ])('refuses the login by returning %s', async (_what, authorize) => {
    const host = await hostWith({ authorize });
    const visitor = new Visitor();
    expectRefusal(await logIn(visitor, host), 'not_authorized');
    expect(await identityOf(visitor, host)).toBeUndefined();
  });

  it('gets all claims, of which keepClaims keeps some: at the callback and in later requests', async () => {
    const seen: unknown[] = [];
    const claims = (all: Record<string, unknown>) => void (all['department'] = 'sales');
    honest.script = { backToken: { claims } };
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
      const login = { authorize, keepClaims: ['email'] };
      const host = await startOne({ kind, controllers: [ClaimsController], login });
      const visitor = new Visitor();
      await logIn(visitor, host);
      expect(authorize.mock.calls[0]?.[0].claims).toMatchObject({ department: 'sales' });
      const kept = { email: 'pat@example.com', auth_time: expect.any(Number) };
      expect(seen.pop()).toEqual(kept);
      expect((await identityOf(visitor, host))?.claims).toEqual(kept);
    }
  });

  it('fails the login with 503 where it throws', async () => {
    const host = await hostWith({
      authorize: () => {
        throw new Error('the directory is down');
      },
    });
    const visitor = new Visitor();
    const reply = await logIn(visitor, host);
    expect([reply.status, JSON.parse(reply.text)]).toEqual([
      503,
      expect.objectContaining({ code: 'service_unavailable' }),
    ]);
    expect(reply.text).not.toContain('directory');
    expect(await identityOf(visitor, host)).toBeUndefined();
  });

  it('fails the login with 504 at the deadline where it hangs, and may reject later', async () => {
    let fail: (error: Error) => void = () => undefined;
    const authorize = () => new Promise<boolean>((_, reject) => (fail = reject));
    const host = await startWith({ login: { authorize }, tenantHttp: { deadline: 500 } });
    const visitor = new Visitor();
    const reply = await logIn(visitor, host);
    expect([reply.status, JSON.parse(reply.text)]).toEqual([
      504,
      expect.objectContaining({ code: 'deadline_exceeded' }),
    ]);
    fail(new Error('the directory is down'));
    await new Promise(setImmediate);
    expect(await identityOf(visitor, host)).toBeUndefined();
  });
});
