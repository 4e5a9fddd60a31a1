import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Controller, Get, Logger, Module, UseGuards, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  CurrentExhibitors,
  ExhibitorGuard,
  ExhibitorModule,
  type ExhibitorModuleOptions,
  type LoginOptions,
  type TenantOptions,
} from '../../lib/index.js';
import { checkOptions } from '../../lib/options/check-options.js';
import { addressProblem } from '../../lib/problems/address-problems.js';
import { ProblemLog } from '../../lib/problems/problem-log.service.js';
import type { Problem } from '../../lib/problems/problem.interface.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { BoothController } from '../support/booth.controller.js';
import { clockOf, StoppedClock } from '../support/clock.js';
import { COOKIE_SECRET, startHost, type Host, type HostKind } from '../support/host.js';
import { OperatorLines } from '../support/operator-lines.js';
import { ScriptedProvider } from '../support/provider.js';
import { KEYS, unsigned } from '../support/provider-keys.js';
import type { TokenChange } from '../support/provider-script.js';
import { logIn as logInAt } from '../login/journey.js';
import { registryOf } from '../support/registry.js';
import { startSandbox } from '../support/sandbox.js';
import { freePort } from '../support/server.js';
import { tenantAt } from '../transport/transport-bench.js';
import { Visitor, type Reply } from '../support/visitor.js';

@Controller('mistake')
class DecoratedController {
  @Get()
  mine(@CurrentExhibitors() exhibitors: unknown): unknown {
    return exhibitors;
  }
}

@Controller('mistake')
class GuardedController {
  @Get()
  @UseGuards(ExhibitorGuard)
  mine(): void {}
}

const lines = new OperatorLines();
let sandbox: ExhibitorSandbox;
let host: Host | undefined;
beforeAll(async () => {
  sandbox = await startSandbox();
  sandbox.signInAs('olga.one');
});
beforeEach(() => lines.clear());
afterEach(async () => {
  await host?.close();
  host = undefined;
});
afterAll(() => sandbox?.stop());

type Change = Partial<Omit<TenantOptions, 'login'>> & { login?: Partial<LoginOptions> };

function optionsWith(redirectUri: string, { login, ...change }: Change = {}): ExhibitorModuleOptions {
  const tenant = sandbox.tenantOptions('acme', { redirectUri });
  return {
    tenant: { ...tenant, ...change, login: { ...tenant.login, ...login } },
    secrets: [COOKIE_SECRET],
    http: { attempts: 1 },
  };
}

async function start(change: Change = {}, kind: HostKind = 'express'): Promise<Host> {
  host = await startHost({
    kind,
    controllers: [BoothController, DecoratedController],
    configure: (app) => app.useLogger(lines),
    options: (callback) => optionsWith(callback, change),
  });
  return host;
}

/** Logs in, and answers the reply of the callback or the page it leads to. */
const logIn = (visitor: Visitor): Promise<Reply> => visitor.follow(`${host?.url}/auth/login?returnTo=%2Fme`);

/** Logs in and visits a page that needs the service. */
async function visit(path: string): Promise<Reply> {
  const visitor = new Visitor();
  expect((await logIn(visitor)).status).toBe(200);
  return visitor.visit(`${host?.url}${path}`);
}

const MINE = '/events/world-2026/mine';

/** Expects one line, and a visitor who is told nothing of it. */
function expectLine(reply: Reply, status: number, body: object, line: RegExp): void {
  expect([reply.status, JSON.parse(reply.text)]).toEqual([status, expect.objectContaining(body)]);
  expect(lines.all).toEqual([expect.stringMatching(line)]);
  expect(reply.text).not.toMatch(/tenant\.|Secret|login\.|baseUrl|https?:/);
}

const refused = (reason: string): object => ({ code: 'login_failed', reason });

describe('a mistake that shows when the service or the provider is used', () => {
  it('1, a wrong secret of the API client: clientSecret', async () => {
    await start({ clientSecret: 'wrong' });
    expectLine(
      await visit(MINE),
      502,
      { code: 'token_rejected' },
      /^tenant\.clientSecret, tenant\.clientId: the token endpoint refused the API client: invalid_client \(Invalid client credentials\)$/,
    );
  });

  it('2, a wrong secret of the login client: login.clientSecret, once a minute', async () => {
    const { app } = await start({ login: { clientSecret: 'wrong' } });
    expectLine(
      await logIn(new Visitor()),
      401,
      refused('provider'),
      /^tenant\.login\.clientSecret, tenant\.login\.clientId: the token endpoint refused the login client: invalid_client/,
    );
    await logIn(new Visitor());
    expect(lines.all).toHaveLength(1);
    clockOf(app).skip(60_000, ['now']);
    await logIn(new Visitor());
    expect(lines.all).toHaveLength(2);
  });

  it.each<[string, () => string | Promise<string>, string]>([
    [
      'rejects',
      () => Promise.reject(new Error('no access with the password of the vault')),
      'failed (Error)',
    ],
    ['answers nothing', () => '', 'returned no secret'],
  ])('a clientSecret function that %s, once a minute', async (_, clientSecret, why) => {
    const { app } = await start({ clientSecret });
    const line = new RegExp(`^tenant\\.clientSecret: the function ${why.replace(/[()]/g, '\\$&')}$`);
    expectLine(await visit(MINE), 503, { code: 'token_unavailable' }, line);
    await visit(MINE);
    expect(lines.all).toHaveLength(1);
    clockOf(app).skip(60_000, ['now']);
    await visit(MINE);
    expect(lines.all).toHaveLength(2);
  });

  it('a login.clientSecret function that rejects', async () => {
    await start({
      login: { clientSecret: () => Promise.reject(new TypeError('the password of the vault')) },
    });
    const line = /^tenant\.login\.clientSecret: the function failed \(TypeError\)$/;
    expectLine(await logIn(new Visitor()), 503, { code: 'service_unavailable' }, line);
  });

  it('3, the host of the base URL: baseUrl', async () => {
    await start({ baseUrl: `http://127.0.0.1:${await freePort()}` });
    expectLine(
      await visit(MINE),
      503,
      { code: 'service_unavailable' },
      /^tenant\.baseUrl: no connection to http:\/\/127\.0\.0\.1:\d+\/api\/v1\/exhibitor\/event\/world-2026\/contactEmail\/\{contactEmail\}: ECONNREFUSED$/,
    );
  });

  it('4, the path of the base URL: baseUrl and the event are the suspects', async () => {
    await start({ baseUrl: `${sandbox.url}/wrong` });
    const suspects =
      /^tenant\.baseUrl: the service answered 404: the path of the base URL is wrong, or there is no such event: /;
    expectLine(await visit('/events/world-2026/exhibitors?page=1'), 404, { code: 'not_found' }, suspects);
    expect(lines.all[0]).toMatch(new RegExp(`: ${sandbox.url}/wrong/api/v1/exhibitor/event/world-2026$`));
    lines.clear();
    // A 404 of a lookup is the regular answer for a person without exhibitor, so the line is all there is.
    expectLine(await visit(MINE), 403, { code: 'no_exhibitor' }, suspects);
    expect(lines.all[0]).toContain(
      `${sandbox.url}/wrong/api/v1/exhibitor/event/world-2026/contactEmail/{contactEmail}`,
    );
  });

  it('4, but a lookup of a base URL that has answered before is no mistake', async () => {
    await start();
    const visitor = new Visitor();
    await logIn(visitor);
    expect((await visitor.visit(`${host?.url}${MINE}`)).status).toBe(200);
    sandbox.failNext('lookup', { kind: 'status', status: 404 });
    expect((await visitor.visit(`${host?.url}/events/national-2026/mine`)).status).toBe(403);
    expect(lines.all).toEqual([]);
  });

  it('4, and an event that a visitor makes up is none either', async () => {
    await start();
    const visitor = new Visitor();
    await logIn(visitor);
    const statusOf = async (event: string, path: string) =>
      (await visitor.visit(`${host?.url}/events/${event}/${path}`)).status;
    expect(await statusOf('world-2026', 'mine')).toBe(200);
    expect(await statusOf('made-up', 'exhibitors?page=1')).toBe(404);
    expect(await statusOf('made-up', 'mine')).toBe(403);
    expect(lines.all).toEqual([]);
  });

  it('8, the issuer: login.issuer, with the one that arrived', async () => {
    await start({ login: { issuer: 'https://login.example.com' } });
    const reply = await logIn(new Visitor());
    expectLine(
      reply,
      401,
      refused('issuer'),
      /^tenant\.login\.issuer: .*; expected 'https:\/\/login\.example\.com', received 'http:\/\/127\.0\.0\.1:\d+'/,
    );
  });

  it('9, another key: login.keys, with the kid that arrived', async () => {
    await start({ login: { keys: { keys: [{ ...KEYS.attacker.jwk, kid: 'of-onboarding' }] } } });
    expectLine(
      await logIn(new Visitor()),
      401,
      refused('signature'),
      /^tenant\.login\.keys: the ID token is refused \(signature\); expected 'kid of-onboarding', received 'kid \S+, alg RS256'$/,
    );
  });

  it('12, the tenant id: tenantId', async () => {
    await start({ tenantId: 'of-another-tenant' });
    expectLine(
      await visit(MINE),
      502,
      { code: 'access_denied' },
      /^tenant\.tenantId, tenant\.scope: the service denied access with status 403/,
    );
  });

  it('14, a decorator without a guard: the line names the guard', async () => {
    await start();
    const reply = await new Visitor().visit(`${host?.url}/mistake`);
    expectLine(
      reply,
      500,
      { message: 'Internal server error' },
      /@CurrentExhibitors\(\) needs ExhibitorGuard on the route/,
    );
  });
});

describe('a mistake that shows at each request', () => {
  const broken = { tenantId: '' } as TenantOptions;

  async function startWith(options: ExhibitorModuleOptions): Promise<Host> {
    host = await startHost({ configure: (app) => app.useLogger(lines), options: () => options });
    lines.clear();
    return host;
  }

  it('is logged once a minute: no tenant of several', async () => {
    const tenants = { acme: sandbox.tenantOptions('acme'), globex: sandbox.tenantOptions('globex') };
    const { app, url } = await startWith({ tenants, secrets: [COOKIE_SECRET] });
    for (const path of ['/auth/login', MINE, '/events/world-2026/exhibitors?page=1', '/auth/login']) {
      await new Visitor().visit(`${url}${path}`);
    }
    expect(lines.all).toEqual([expect.stringContaining('there are several tenants')]);
    clockOf(app).skip(60_000, ['now']);
    expect((await new Visitor().visit(`${url}/auth/login`)).status).toBe(500);
    expect(lines.all).toHaveLength(2);
  });

  it('is logged once a minute and tenant: wrong options of a source', async () => {
    const { url } = await startWith({
      tenants: { find: () => broken },
      allowedOrigins: () => true,
      resolveTenant: ({ query }) => String(Object(query)['portal']),
      secrets: [COOKIE_SECRET],
    });
    for (const portal of ['one', 'two', 'one', 'two']) {
      const { status, text } = await new Visitor().visit(`${url}/auth/login?portal=${portal}`);
      expect([status, text]).toEqual([500, expect.stringContaining('The server is not configured for this')]);
    }
    expect(lines.all).toEqual([
      expect.stringContaining('tenants.one.tenantId: must not be empty'),
      expect.stringContaining('tenants.two.tenantId: must not be empty'),
    ]);
    const form = { method: 'POST', body: new URLSearchParams({ logout_token: 'any' }) };
    const reply = await fetch(`${url}/auth/backchannel-logout?portal=one`, form);
    expect(await reply.json()).toMatchObject({ error_description: 'The server is not configured for this' });
    expect(lines.all).toHaveLength(2);
  });
});

describe('a mistake that shows at boot', () => {
  const REDIRECT = 'http://127.0.0.1:3000/auth/callback';

  /** The lines of an application that does not start, so that visitors see nothing at all. */
  async function failedBoot(
    imports: Parameters<typeof Module>[0]['imports'],
    controllers: Type[] = [],
  ): Promise<string> {
    @Module({ imports, controllers })
    class AppModule {}
    await expect(NestFactory.create(AppModule, { logger: lines, abortOnError: false })).rejects.toThrow();
    return lines.errors.join('\n');
  }

  const failedBootWith = (
    options: Partial<Omit<ExhibitorModuleOptions, 'tenant' | 'tenants'>>,
    change?: Change,
  ): Promise<string> =>
    failedBoot([ExhibitorModule.forRoot({ ...optionsWith(REDIRECT, change), ...options })]);

  it.each<[string, Change, Partial<Omit<ExhibitorModuleOptions, 'tenant' | 'tenants'>>, string]>([
    ['5, an http URL', { baseUrl: 'http://api.example.com' }, {}, 'tenant.baseUrl: must be https'],
    ['6, no secrets', {}, { secrets: undefined }, 'secrets: is required with a login'],
    ['7, a short secret', {}, { secrets: ['short'] }, 'secrets.0: must have at least 32 characters'],
    [
      '10, an unreadable key',
      { login: { keys: '-----BEGIN PUBLIC KEY----- MIIB -----END PUBLIC KEY-----' } },
      {},
      'tenant.login.keys: must be a readable PEM (SPKI, PKCS#1 or certificate), with its line breaks, which may be written as \\n',
    ],
  ])('%s', async (_, change, options, line) => {
    expect(await failedBootWith(options, change)).toContain(line);
  });

  it('13, a guard without the module', async () => {
    expect(await failedBoot([], [GuardedController])).toContain('import ExhibitorModule');
  });

  it.each<HostKind>(['express', 'fastify'])(
    '11, a redirectUri that no route serves, on %s: the 404 names the path, and a warning the routes',
    async (kind) => {
      const { url } = await start({ login: { redirectUri: REDIRECT.replace('callback', 'back') } }, kind);
      const reply = await new Visitor().visit(`${url}/auth/back`);
      expect([reply.status, JSON.parse(reply.text)]).toEqual([
        404,
        expect.objectContaining({ message: 'Cannot GET /auth/back' }),
      ]);
      expect(lines.all).toEqual([
        'tenant.login.redirectUri: no route with ExhibitorCallbackGuard has the path /auth/back. ' +
          'Callbacks found: /auth/callback',
      ]);
    },
  );
});

describe('a value of onboarding that is most likely wrong', () => {
  it('is warned of at boot, once each', async () => {
    host = await startHost({
      configure: (app) => app.useLogger(lines),
      options: (callback) => ({
        ...optionsWith(callback, {
          clientSecret: 'api secret\n',
          login: { clientSecret: ' login secret', scope: ['openid', 'offline_access'] },
        }),
        secrets: [`${COOKIE_SECRET} `],
      }),
    });
    expect(lines.all).toEqual([
      expect.stringMatching(/^secrets\.0: begins or ends with white space/),
      expect.stringMatching(/^tenant\.clientSecret: begins or ends with white space/),
      expect.stringMatching(/^tenant\.login\.clientSecret: begins or ends with white space/),
      expect.stringMatching(/^tenant\.login\.scope: has neither 'profile' nor 'email'/),
    ]);
    expect(lines.all.join()).not.toMatch(/api secret|login secret/);
  });

  it('is warned of at boot: a URL that ends with what is appended to it', async () => {
    host = await startHost({
      configure: (app) => app.useLogger(lines),
      options: (callback) => ({
        ...optionsWith(callback, { baseUrl: `${sandbox.url}/api/v1/`, authUrl: `${sandbox.url}/connect` }),
        secrets: [COOKIE_SECRET],
      }),
    });
    expect(lines.all).toEqual([
      `tenant.baseUrl: '${sandbox.url}/api/v1' ends with /api/v1, which is appended to it; '${sandbox.url}' is meant`,
      `tenant.authUrl: '${sandbox.url}/connect' ends with /connect, which is appended to it; '${sandbox.url}' is meant`,
    ]);
  });

  it('is repaired where it has one meaning: a PEM with escaped line breaks', async () => {
    const pem = sandbox.tenantOptions('acme', { keys: 'pem' }).login.keys as string;
    await start({ login: { keys: pem.replaceAll('\n', '\\n') } });
    expect((await logIn(new Visitor())).status).toBe(200);
    expect(lines.all).toEqual([]);
  });
});

describe('a callback without login cookie', () => {
  it('is named: its login may have started on another host', async () => {
    const { callback } = await start();
    const reply = await new Visitor().visit(`${callback}?state=any&code=any`);
    expectLine(
      reply,
      401,
      { ...refused('state'), message: expect.stringContaining('sent no login cookie') },
      /^tenant\.login\.redirectUri: the callback is refused \(state\): it brought no login cookie; .* \(unverified: /,
    );
  });

  it('is not suspected where the browser sent the cookie of another login', async () => {
    const { callback, url } = await start();
    const visitor = new Visitor();
    await visitor.visit(`${url}/auth/login`);
    const reply = await visitor.visit(`${callback}?state=of-another&code=any`);
    expect([reply.status, reply.text]).toEqual([401, expect.stringContaining('belongs to no pending login')]);
    expect(lines.all).toEqual([]);
  });
});

describe('several tenants', () => {
  it('are not named for a callback without cookie, which belongs to none', async () => {
    host = await startHost({
      configure: (app) => app.useLogger(lines),
      options: (redirectUri) => ({
        tenants: {
          acme: sandbox.tenantOptions('acme', { redirectUri }),
          globex: sandbox.tenantOptions('globex', { redirectUri }),
        },
        resolveTenant: ({ query }) => String(Object(query)['portal']),
        secrets: [COOKIE_SECRET],
      }),
    });
    lines.clear();
    await new Visitor().visit(`${host.callback}?state=any&code=any`);
    await new Visitor().visit(host.callback, { form: { state: 'any', code: 'any' } });
    expect(lines.all).toEqual([
      expect.stringMatching(/^tenants\.\*\.login\.redirectUri: .* it brought no login cookie/),
    ]);
  });
});

describe('what a browser delivers', () => {
  it('is marked as unverified, names no option, and leaves the limit of the token endpoint alone', async () => {
    await start({ login: { clientSecret: 'wrong' } });
    const visitor = new Visitor();
    const started = await visitor.visit(`${host?.url}/auth/login`);
    const state = new URL(started.location ?? '').searchParams.get('state') ?? '';
    const forged = new URLSearchParams({
      state,
      error: 'invalid_client',
      error_description: `${'x'.repeat(2_000)}\u001b[2J`,
      iss: sandbox.url,
    });
    const reply = await visitor.visit(`${host?.callback}?${forged}`);
    expectLine(reply, 401, refused('provider'), /^tenant: the callback received an error.*\(unverified: /);
    expect(lines.all[0]).not.toMatch(/tenant\.|\p{Cc}/u);
    expect(lines.all[0]?.length).toBeLessThan(600);
    await logIn(new Visitor());
    expect(lines.errors).toEqual([expect.stringContaining('tenant.login.clientSecret')]);
  });
});

describe('a refused ID token', () => {
  let provider: ScriptedProvider;
  beforeAll(async () => {
    provider = await ScriptedProvider.start();
  });
  afterAll(() => provider?.stop());

  async function refusedAs(
    login: Partial<LoginOptions>,
    script: ScriptedProvider['script'],
  ): Promise<string[]> {
    host = await startHost({
      configure: (app) => app.useLogger(lines),
      options: (callback) => ({
        tenants: { acme: provider.tenantOptions(callback, login) },
        secrets: [COOKIE_SECRET],
      }),
    });
    lines.clear();
    provider.script = script;
    expect((await logInAt(new Visitor(), host)).status).toBe(401);
    provider.script = {};
    return lines.all;
  }

  const claims = (change: Record<string, unknown>): TokenChange => ({
    claims: (all) => void Object.assign(all, change),
  });

  it.each<[string, TokenChange, RegExp]>([
    [
      'issuer',
      claims({ iss: 'https://other.example' }),
      /^tenants\.acme\.login\.issuer: .*\(issuer\); expected 'http:\S+', received 'https:\/\/other\.example'$/,
    ],
    [
      'audience',
      claims({ aud: ['one', 'two'], azp: 'three' }),
      /^tenants\.acme\.login\.clientId: .*\(audience\); expected 'aud hostile-web, azp hostile-web', received 'aud one or two, azp three'$/,
    ],
    [
      'algorithm',
      { write: (payload) => unsigned(payload) },
      /^tenants\.acme\.login\.algorithms: .*\(algorithm\); expected 'alg RS256, PS256, ES256', received 'alg none'$/,
    ],
    [
      'signature',
      { key: KEYS.attacker },
      /^tenants\.acme\.login\.keys: .*\(signature\); expected 'kid \S+ or \S+ or \S+', received 'kid \S+, alg RS256'$/,
    ],
    [
      'expired',
      claims({ exp: 1_000 }),
      /^tenants\.acme\.login\.clockTolerance: .*\(expired\); .* received 'iat \d+, nbf none, exp 1000'$/,
    ],
  ])('says what was expected and what arrived: %s', async (_, backToken, line) => {
    expect(await refusedAs({}, { backToken })).toEqual([expect.stringMatching(line)]);
  });

  it('is marked as unverified where the browser delivered it and no key has signed it', async () => {
    const front = await refusedAs({ responseType: 'code id_token' }, { frontToken: { key: KEYS.attacker } });
    expect(front).toEqual([expect.stringMatching(/\(signature\); expected .*\(unverified: /)]);
    expect(lines.errors).toEqual([]);
  });
});

const PROBLEM: Problem = {
  cause: 'issuer',
  options: ['login.issuer'],
  message: 'the ID token is refused',
  expected: 'https://good.example',
  received: 'https://other.example',
};

describe('the operator log', () => {
  beforeAll(() => Logger.overrideLogger(lines));
  afterAll(() => Logger.overrideLogger(['fatal']));

  let clock: StoppedClock;
  const logOf = (options: unknown) => {
    clock = new StoppedClock();
    const checked = checkOptions(options);
    return { log: new ProblemLog(checked, clock), registry: registryOf(checked, clock) };
  };
  const two = () =>
    logOf({ tenants: { acme: tenantAt('https://a.example'), beta: tenantAt('https://b.example') } });

  it.each([
    ['tenant', { tenant: tenantAt('https://a.example') }],
    ['tenants.default', { tenants: { default: tenantAt('https://a.example') } }],
    [
      'tenants.default',
      { tenants: { find: () => tenantAt('https://a.example') }, allowedOrigins: () => true },
    ],
  ])('calls the tenant %s', async (path, options) => {
    const { log, registry } = logOf(options);
    log.report(await registry.get('default'), PROBLEM);
    expect(lines.errors).toEqual([expect.stringMatching(new RegExp(`^${path}\\.login\\.issuer: `))]);
  });

  it('has one line a minute for each tenant and cause', async () => {
    const { log, registry } = two();
    const [acme, beta] = [await registry.get('acme'), await registry.get('beta')];
    const countAfter = (ms: number): number => {
      lines.clear();
      clock.time += ms;
      log.report(acme, PROBLEM);
      log.report(acme, { ...PROBLEM, received: 'https://third.example' });
      log.report(acme, { ...PROBLEM, cause: 'audience' });
      log.report(beta, PROBLEM);
      return lines.errors.length;
    };
    expect(countAfter(0)).toBe(3);
    expect(countAfter(59_999)).toBe(0);
    expect(countAfter(1)).toBe(3);
  });

  it('does not wait for the minute once the tenant was forgotten, perhaps for other options', async () => {
    const { log, registry } = two();
    log.report(await registry.get('acme'), PROBLEM);
    registry.forget('acme');
    log.report(await registry.get('acme'), PROBLEM);
    expect(lines.errors).toHaveLength(2);
  });

  it('marks what a browser delivered, as a warning with a limit of its own', async () => {
    const { log, registry } = two();
    const acme = await registry.get('acme');
    log.report(acme, { ...PROBLEM, isUnverified: true });
    log.report(acme, { ...PROBLEM, isUnverified: true });
    expect(lines.errors).toEqual([]);
    expect(lines.warnings).toEqual([
      expect.stringMatching(/\(unverified: the browser or the client delivered it\)$/),
    ]);
    log.report(acme, PROBLEM);
    expect(lines.errors).toHaveLength(1);
  });

  it('cuts text from outside, and removes control characters and e-mail addresses', async () => {
    const { log, registry } = two();
    log.report(await registry.get('acme'), {
      ...PROBLEM,
      message: 'refused\u001b[2J\nERROR forged for pat@example.com',
      received: `x\r\n${'y'.repeat(5_000)}`,
    });
    const [line = ''] = lines.errors;
    expect(line).toContain('refused [2J ERROR forged for [removed]');
    expect(line).not.toMatch(/[\p{Cc}@]/u);
    expect(line.length).toBeLessThan(700);
  });
});

describe('an address that cannot be reached', () => {
  const withLogin = (login: object, endpoints = {}) => ({
    ...tenantAt('https://a.example'),
    endpoints,
    login: {
      clientId: 'web',
      redirectUri: 'https://host.example/callback',
      issuer: 'https://a.example',
      ...login,
    },
  });
  const discovered = withLogin({ discovery: true });
  const own = withLogin({ keys: 'https://a.example/jwks' }, { token: 'https://a.example/token' });

  it.each([
    ['list', discovered, 'baseUrl'],
    // The API client knows no discovery.
    ['token', discovered, 'authUrl'],
    ['token', own, 'endpoints.token'],
    ['code', discovered, 'login.discovery'],
    ['code', own, 'endpoints.token'],
    ['metadata', discovered, 'login.issuer'],
    ['keys', discovered, 'login.discovery'],
    ['keys', own, 'login.keys'],
    ['userinfo', own, 'authUrl'],
  ])('of the operation %s is that of an option', (operation, options, option) => {
    const checked = checkOptions({ tenant: options, secrets: ['0123456789abcdef0123456789abcdef'] });
    const [tenant] = registryOf(checked, new StoppedClock()).fixed;
    const failed = {
      operation,
      url: 'https://a.example/x',
      why: 'unreached',
      message: '',
    };
    expect(tenant && addressProblem(tenant, failed)).toMatchObject({ options: [option] });
  });
});
