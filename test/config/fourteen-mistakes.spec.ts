/**
 * The mistakes of onboarding, each with the line that names it. Of the fourteen, 11 (a `redirectUri` that no route serves) is in
 * `nest/login-routes.spec.ts`, 13 (a guard without the module) and 14 (a decorator without a guard) in `nest/host-code.spec.ts`.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { NestFactory } from '@nestjs/core';
import {
  ExhibitorModule,
  TenantRegistry,
  type ExhibitorModuleOptions,
  type LoginOptions,
  type TenantOptions,
} from '../../lib/index.js';
import { checkOptions } from '../../lib/config/check-options.js';
import { failedRequest, shownUrl, statusProblem } from '../../lib/config/problems/partner-problems.js';
import { clockOf, StoppedClock } from '../support/clock.js';
import { COOKIE_SECRET, startHost, tenantsOptions, type Host, type HostOptions } from '../support/host.js';
import { useClosing, useSandbox } from '../support/lifetimes.js';
import type { OtherOptions } from '../support/module-options.js';
import { OperatorLines } from '../support/operator-lines.js';
import { ScriptedProvider } from '../support/provider.js';
import { KEYS, unsigned } from '../support/provider-keys.js';
import { answers, changes, type TokenChange } from '../support/provider-script.js';
import { logIn as logInAt } from '../login/journey.js';
import { registryOf } from '../support/registry.js';
import { tenantAt } from '../support/tenant-at.js';
import { Visitor, type Reply } from '../support/visitor.js';

const lines = new OperatorLines();
const sandbox = await useSandbox();
const closing = useClosing();
beforeAll(() => sandbox.signInAs('olga.one'));
beforeEach(() => lines.clear());

type Change = Partial<Omit<TenantOptions, 'login'>> & { login?: Partial<LoginOptions> };

function optionsWith(redirectUri: string, { login, ...change }: Change = {}): ExhibitorModuleOptions {
  const tenant = sandbox.tenantOptions('acme', { redirectUri });
  return {
    tenant: { ...tenant, ...change, login: { ...tenant.login, ...login } },
    secrets: [COOKIE_SECRET],
    http: { attempts: 1 },
  };
}

async function startWith(options: HostOptions['options']): Promise<Host> {
  return closing(await startHost({ configure: (app) => app.useLogger(lines), options }));
}

const start = (change: Change = {}): Promise<Host> => startWith((callback) => optionsWith(callback, change));

/** Logs in, and answers the reply of the callback or the page it leads to. */
const logIn = ({ url }: Host, visitor = new Visitor()): Promise<Reply> =>
  visitor.follow(`${url}/auth/login?returnTo=%2Fme`);

/** Logs in and visits a page that needs the service. */
async function visit(host: Host, path: string): Promise<Reply> {
  const visitor = new Visitor();
  expect((await logIn(host, visitor)).status).toBe(200);
  return visitor.visit(`${host.url}${path}`);
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
  it.each<[what: string, change: Change, reply: [number, object], line: RegExp]>([
    [
      '1, a wrong secret of the API client: clientSecret',
      { clientSecret: 'wrong' },
      [502, { code: 'token_rejected' }],
      /^tenant\.clientSecret, tenant\.clientId: the token endpoint refused the API client: invalid_client \(Invalid client credentials\)$/,
    ],
    [
      'a clientSecret function that answers nothing',
      { clientSecret: () => '' },
      [503, { code: 'token_unavailable' }],
      /^tenant\.clientSecret: the function returned no secret$/,
    ],
    [
      '2, a wrong secret of the login client: login.clientSecret',
      { login: { clientSecret: 'wrong' } },
      [401, refused('provider')],
      /^tenant\.login\.clientSecret, tenant\.login\.clientId: the token endpoint refused the login client: invalid_client/,
    ],
    [
      '3, the host of the base URL: baseUrl',
      { baseUrl: 'http://127.0.0.1:1' },
      [503, { code: 'service_unavailable' }],
      /^tenant\.baseUrl: no connection to http:\/\/127\.0\.0\.1:1\/api\/v1\/exhibitor\/event\/world-2026\/contactEmail\/\{contactEmail\}: ECONNREFUSED$/,
    ],
    [
      '8, the issuer: login.issuer, with the one that arrived',
      { login: { issuer: 'https://login.example.com' } },
      [401, refused('issuer')],
      /^tenant\.login\.issuer: .*; expected 'https:\/\/login\.example\.com', received 'http:\/\/127\.0\.0\.1:\d+'/,
    ],
    [
      '9, another key: login.keys, with the kid that arrived',
      { login: { keys: { keys: [{ ...KEYS.attacker.jwk, kid: 'of-onboarding' }] } } },
      [401, refused('signature')],
      /^tenant\.login\.keys: the ID token is refused \(signature\); expected 'kid of-onboarding', received 'kid \S+, alg RS256'$/,
    ],
    [
      '12, the tenant id: tenantId',
      { tenantId: 'of-another-tenant' },
      [502, { code: 'access_denied' }],
      /^tenant\.tenantId, tenant\.scope: the service denied access with status 403/,
    ],
  ])('%s, once a minute', async (_, change, reply, line) => {
    const host = await start(change);
    const ask = () => (change.login === undefined ? visit(host, MINE) : logIn(host));
    expectLine(await ask(), ...reply, line);
    await ask();
    expect(lines.all).toHaveLength(1);
    clockOf(host.app).skip(60_000, ['now']);
    await ask();
    expect(lines.all).toHaveLength(2);
  });

  it('4, the path of the base URL: baseUrl and the event are the suspects', async () => {
    const host = await start({ baseUrl: `${sandbox.url}/wrong` });
    const lineFor = (path: string) =>
      new RegExp(
        '^tenant\\.baseUrl: the service answered 404: the path of the base URL is wrong, or there is no such event: ' +
          `${sandbox.url}/wrong/api/v1/exhibitor/event/${path}$`,
      );
    const page = await visit(host, '/events/world-2026/exhibitors?page=1');
    expectLine(page, 404, { code: 'not_found' }, lineFor('world-2026'));
    lines.clear();
    // A 404 of a lookup is the regular answer for a person without exhibitor, so the line is all there is.
    const ofLookup = lineFor('world-2026/contactEmail/\\{contactEmail\\}');
    expectLine(await visit(host, MINE), 403, { code: 'no_exhibitor' }, ofLookup);
  });

  it('4, but neither a lookup of a base URL that has answered before nor an event that a visitor makes up', async () => {
    const host = await start();
    const visitor = new Visitor();
    await logIn(host, visitor);
    const statusOf = async (event: string, path: string) =>
      (await visitor.visit(`${host.url}/events/${event}/${path}`)).status;
    expect(await statusOf('world-2026', 'mine')).toBe(200);
    sandbox.failNext('lookup', { kind: 'status', status: 404 });
    expect(await statusOf('national-2026', 'mine')).toBe(403);
    expect(await statusOf('made-up', 'exhibitors?page=1')).toBe(404);
    expect(await statusOf('made-up', 'mine')).toBe(403);
    expect(lines.all).toEqual([]);
  });
});

describe('a mistake that shows at each request', () => {
  const broken = { tenantId: '' } as TenantOptions;

  it('is logged once a minute: no tenant of several', async () => {
    const { app, url } = await startWith(tenantsOptions(sandbox, ['acme', 'globex']));
    lines.clear();
    for (const path of ['/auth/login', MINE, '/events/world-2026/exhibitors?page=1', '/auth/login']) {
      await new Visitor().visit(`${url}${path}`);
    }
    expect(lines.all).toEqual([expect.stringContaining('there are several tenants')]);
    clockOf(app).skip(60_000, ['now']);
    expect((await new Visitor().visit(`${url}/auth/login`)).status).toBe(500);
    expect(lines.all).toHaveLength(2);
  });

  it('is logged once a minute and tenant: wrong options of a source', async () => {
    const { url } = await startWith(() => ({
      tenants: { find: () => broken },
      allowedOrigins: () => true,
      resolveTenant: ({ query }) => String(Object(query)['portal']),
      secrets: [COOKIE_SECRET],
    }));
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
  async function failedBootWith(options: OtherOptions, change: Change): Promise<string> {
    const module = ExhibitorModule.forRoot({ ...optionsWith(REDIRECT, change), ...options });
    await expect(NestFactory.create(module, { logger: lines, abortOnError: false })).rejects.toThrow();
    return lines.errors.join('\n');
  }

  it.each<[string, Change, OtherOptions, string]>([
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
});

describe('a value of onboarding that is most likely wrong', () => {
  it('is warned of at boot, once each', async () => {
    const scope = ['openid', 'offline_access'];
    const login = { clientSecret: '"login secret"', scope, responseType: 'code id_token' } as const;
    await startWith((callback) => ({
      ...optionsWith(callback, { clientSecret: 'api secret\n', login }),
      secrets: [`${COOKIE_SECRET} `],
    }));
    expect(lines.all).toEqual([
      expect.stringMatching(/^secrets\.0: begins or ends with white space/),
      expect.stringMatching(/^tenant\.clientSecret: begins or ends with white space/),
      expect.stringMatching(/^tenant\.login\.clientSecret: begins or ends with white space or quotes/),
      expect.stringMatching(/^tenant\.login\.scope: has neither 'profile' nor 'email'/),
      expect.stringMatching(/^tenant\.login\.responseType: 'code id_token' sends tokens through the browser/),
    ]);
    expect(lines.all.join()).not.toMatch(/api secret|login secret/);
  });

  it('is warned of at boot: a URL that ends with what is appended to it', async () => {
    await start({ baseUrl: `${sandbox.url}/api/v1/`, authUrl: `${sandbox.url}/connect` });
    expect(lines.all).toEqual([
      `tenant.baseUrl: '${sandbox.url}/api/v1' ends with /api/v1, which is appended to it; '${sandbox.url}' is meant`,
      `tenant.authUrl: '${sandbox.url}/connect' ends with /connect, which is appended to it; '${sandbox.url}' is meant`,
    ]);
  });

  it('is repaired where it has one meaning: a PEM with escaped line breaks', async () => {
    const pem = sandbox.tenantOptions('acme', { keys: 'pem' }).login.keys as string;
    const host = await start({ login: { keys: pem.replaceAll('\n', '\\n') } });
    expect((await logIn(host)).status).toBe(200);
    expect(lines.all).toEqual([]);
  });
});

/** That of a login which another browser has started. */
async function startedState(url: string): Promise<string> {
  const { location = '' } = await new Visitor().visit(`${url}/auth/login`);
  return new URL(location).searchParams.get('state') ?? '';
}

it('a callback without login cookie names the tenant of several which its state names', async () => {
  const { callback, url } = await startWith(
    tenantsOptions(sandbox, ['acme', 'globex'], { resolveTenant: () => 'acme' }),
  );
  const state = await startedState(url);
  lines.clear();
  const reply = await new Visitor().visit(`${callback}?state=${state}&code=any`);
  expectLine(
    reply,
    401,
    { ...refused('state'), message: expect.stringContaining('sent no login cookie') },
    /^tenants\.acme\.login\.redirectUri: the callback is refused \(state\): it brought no login cookie; .* \(unverified: /,
  );
  await new Visitor().visit(callback, { form: { state, code: 'any' } });
  expect(lines.all).toHaveLength(1);
});

describe('what a browser delivers', () => {
  it('is marked as unverified, names no option, and leaves the limit of the token endpoint alone', async () => {
    const host = await start({ login: { clientSecret: 'wrong' } });
    const visitor = new Visitor();
    const started = await visitor.visit(`${host.url}/auth/login`);
    const state = new URL(started.location ?? '').searchParams.get('state') ?? '';
    const forged = new URLSearchParams({
      state,
      error: 'invalid_client',
      error_description: `forged for pat@example.com ${'x'.repeat(2_000)}\u001b[2J`,
      iss: sandbox.url,
    });
    const reply = await visitor.visit(`${host.callback}?${forged}`);
    expectLine(
      reply,
      401,
      refused('provider'),
      /^tenant: the callback is refused \(provider\): it has an error instead of a code; received .*\(unverified: /,
    );
    expect(lines.all[0]).toContain('forged for [removed]');
    expect(lines.all[0]).not.toMatch(/tenant\.|[\p{Cc}@]/u);
    expect(lines.all[0]?.length).toBeLessThan(600);
    await logIn(host);
    expect(lines.errors).toEqual([expect.stringContaining('tenant.login.clientSecret')]);
  });
});

describe('a refused ID token or code', () => {
  let provider: ScriptedProvider;
  beforeAll(async () => {
    provider = await ScriptedProvider.start();
  });
  afterAll(() => provider?.stop());

  async function refusedAs(
    login: Partial<LoginOptions>,
    script: ScriptedProvider['script'],
  ): Promise<string[]> {
    const host = await startWith((callback) => ({
      tenants: { acme: provider.tenantOptions(callback, login) },
      secrets: [COOKIE_SECRET],
    }));
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
      'a hostile issuer',
      claims({ iss: `x\r\n\u001b[2J pat@example.com ${'y'.repeat(5_000)}` }),
      /\(issuer\); expected 'http:\S+', received 'x {3}\[2J \[removed\] y{182}…'$/,
    ],
    [
      'audience',
      claims({ aud: ['one', 'two'], azp: 'three' }),
      /^tenants\.acme\.login\.clientId: .*\(audience\); expected 'aud hostile-web', received 'aud one or two'$/,
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
    [
      'an issuer in a list',
      { claims: (all) => void (all['iss'] = [all['iss']]) },
      /\(issuer\); expected '(http:\S+)', received '\["\1"\]'$/,
    ],
    [
      'no sub',
      claims({ sub: undefined }),
      /^tenants\.acme: .*\(subject\); expected 'sub as text', received 'sub none'$/,
    ],
    [
      'another nonce, which is not shown',
      claims({ nonce: 'of-another' }),
      /^tenants\.acme: .*\(nonce\); expected 'the nonce of this login', received 'another text'$/,
    ],
    ['no nonce', claims({ nonce: undefined }), /\(nonce\); expected '.*', received 'none'$/],
    [
      'an access token',
      { header: { typ: 'at+jwt' } },
      /^tenants\.acme: .*\(token_type\); expected 'an ID token', received 'typ at\+jwt, claims nonce, at_hash'$/,
    ],
    [
      'a time that is text',
      claims({ exp: '4000000000' }),
      /^tenants\.acme: .*\(expired\); .* exp another text'$/,
    ],
    [
      'no iat',
      claims({ iat: undefined }),
      /^tenants\.acme: .*\(issued\); .* received 'iat none, nbf none, exp \d+'$/,
    ],
  ])('says what was expected and what arrived: %s', async (_, backToken, line) => {
    expect(await refusedAs({}, { backToken })).toEqual([expect.stringMatching(line)]);
  });

  it('names the userinfo endpoint where it answers for another user, who is not shown', async () => {
    const script = { email: 'userinfo', userinfo: changes({ sub: 'mallory' }) } as const;
    const line =
      /^tenants\.acme\.authUrl: .*\(subject\).* expected 'userinfo of the sub of the token', received 'userinfo of another text'$/;
    expect(await refusedAs({}, script)).toEqual([expect.stringMatching(line)]);
  });

  it('names the metadata where what it gives as token endpoint answers no OAuth error', async () => {
    const [authorize, token] = ['authorize', 'token'].map((name) => `${provider.url}/connect/${name}`);
    const metadata = changes({ authorization_endpoint: authorize, token_endpoint: token });
    const script = { metadata, token: answers({}, 400) };
    const line = expect.stringMatching(/^tenants\.acme\.login\.discovery: /);
    expect(await refusedAs({ discovery: true }, script)).toEqual([line]);
  });

  it('is a line for the ID token that a browser brings from a provider whose clock is behind, too', async () => {
    const front = await refusedAs({ responseType: 'code id_token' }, { frontToken: claims({ exp: 1_000 }) });
    expect(front).toEqual([expect.stringMatching(/^tenants\.acme\.login\.clockTolerance: .*\(expired\)/)]);
  });

  it('is marked as unverified where the browser delivered it and no key has signed it', async () => {
    const front = await refusedAs({ responseType: 'code id_token' }, { frontToken: { key: KEYS.attacker } });
    expect(front).toEqual([expect.stringMatching(/\(signature\); expected .*\(unverified: /)]);
    expect(lines.errors).toEqual([]);
  });

  it('that a browser delivers hides none of the provider within the minute', async () => {
    const host = await startWith((callback) => ({
      tenants: { acme: provider.tenantOptions(callback, { responseType: 'code id_token' }) },
      secrets: [COOKIE_SECRET],
    }));
    lines.clear();
    provider.script = { frontToken: { key: KEYS.attacker } };
    expect((await logInAt(new Visitor(), host)).status).toBe(401);
    provider.script = { backToken: { key: KEYS.attacker } };
    expect((await logInAt(new Visitor(), host)).status).toBe(401);
    provider.script = {};
    expect(lines.all).toHaveLength(2);
  });

  it('is logged once a minute for each tenant and cause, and anew where the tenant was forgotten', async () => {
    const host = await startWith((callback) => ({
      tenants: { acme: provider.tenantOptions(callback), beta: provider.tenantOptions(callback) },
      resolveTenant: ({ query }) => String(Object(query)['tenant']),
      secrets: [COOKIE_SECRET],
    }));
    const logged = async (): Promise<unknown[]> => {
      lines.clear();
      for (const [tenant, change] of [
        ['acme', { iss: 'https://one.example' }],
        ['acme', { iss: 'https://two.example' }],
        ['acme', { aud: 'other' }],
        ['beta', { iss: 'https://one.example' }],
      ] as const) {
        provider.script = { backToken: claims(change) };
        await logInAt(new Visitor(), host, `?tenant=${tenant}`);
      }
      provider.script = {};
      return lines.all.map((line) => line.split(':')[0]);
    };
    const acme = ['tenants.acme.login.issuer', 'tenants.acme.login.clientId'];
    expect(await logged()).toEqual([...acme, 'tenants.beta.login.issuer']);
    clockOf(host.app).skip(50_000, ['now']);
    expect(await logged()).toEqual([]);
    clockOf(host.app).skip(10_000, ['now']);
    expect(await logged()).toEqual([...acme, 'tenants.beta.login.issuer']);
    // Perhaps it has other options now.
    host.app.get(TenantRegistry).forget('acme');
    expect(await logged()).toEqual(acme);
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
      message: '',
      code: 'service_unavailable',
      blame: 'partner',
      why: 'ENOTFOUND',
    } as const;
    expect(tenant && failedRequest(tenant, failed)).toMatchObject({ options: [option] });
  });

  it.each(['/event/contactEmail', '/contactEmail/base/event/a'])(
    'shows no contact of an event or a base URL with contactEmail in its path: %s',
    (path) => {
      const url = `https://a.example${path}/contactEmail/sam%40example.com`;
      expect(shownUrl(url)).toBe(`https://a.example${path}/contactEmail/{contactEmail}`);
      const problem = statusProblem(
        422,
        { operation: 'lookup', url },
        { title: 'not sam%40example.com' },
        true,
      );
      expect(problem).toMatchObject({ received: 'not [removed]' });
    },
  );

  it('is no contact in a base URL: a list that is rejected there is told', () => {
    const request = {
      operation: 'list',
      url: 'https://a.example/contactEmail/100%/api/v1/exhibitor/event/a',
    };
    expect(statusProblem(400, request, { title: 'no' }, true)).toMatchObject({ received: 'no' });
  });
});
