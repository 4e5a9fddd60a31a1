import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Logger } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { run } from '../../../lib/development/doctor/doctor.command.js';
import { diagnose, type Finding } from '../../../lib/development/doctor/index.js';
import type { TenantOptions } from '../../../lib/index.js';
import { truncate } from '../../support/faults.js';
import { useSandbox } from '../../support/lifetimes.js';
import { KEYS } from '../../support/provider-keys.js';
import { jwksOf, openConnections } from '../../support/sandbox.js';
import { follow, sendJson, startServer, type TestServer } from '../../support/server.js';
import { eventually } from '../../support/wait.js';
import { findingsOf, named, notOk, stepOf, STEPS, withValues, type Values } from './findings.js';

const EMAIL = 'olga.one@example.com';
const START = 'http://127.0.0.1:3000/portal';
const HINTS = { eventId: 'world-2026', contactEmail: EMAIL, startUrl: START };
/** Nothing listens there. */
const DEAF = 'http://127.0.0.1:1';

const signingKey = KEYS.attacker.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
const sandbox = await useSandbox();
const other = await useSandbox({ signingKey });
let untrusted: TestServer;
beforeAll(async () => {
  Logger.overrideLogger(false);
  const certificates = join(import.meta.dirname, '../../http/certificates');
  const [key, cert] = ['server.key', 'server.pem'].map((name) => readFileSync(join(certificates, name)));
  untrusted = await follow(createServer({ key, cert }), 'https');
});
afterEach(() => void jest.restoreAllMocks());
afterAll(() => untrusted?.stop());

const tenantOf = (): TenantOptions => sandbox.tenantOptions('acme');

/** The findings for the sandbox with these values and hints in place of the right ones. */
function examine(values: Values = {}, right = tenantOf()): Promise<Finding[]> {
  const isHint = ([name]: [string, unknown]): boolean => name in HINTS;
  const all = Object.entries(values);
  const options = withValues(right, Object.fromEntries(all.filter((one) => !isHint(one))));
  return findingsOf(options, { ...HINTS, ...Object.fromEntries(all.filter(isHint)) });
}

describe('right values', () => {
  it.each<[string, right: () => TenantOptions, values?: Values]>([
    ['of a JWKS', tenantOf],
    [
      'of a public client, with a JWKS URL',
      () => sandbox.tenantOptions('acme', { publicClient: true, keys: 'url' }),
    ],
    ['of discovery', tenantOf, { 'login.keys': undefined, 'login.discovery': true }],
    [
      'with reserved characters, of a function and as PEM',
      () => {
        const { clientSecret, ...globex } = sandbox.tenantOptions('globex', { keys: 'pem' });
        return { ...globex, clientSecret: async () => clientSecret };
      },
    ],
    ['of a hybrid login', () => sandbox.tenantOptions('acme', { responseType: 'code token id_token' })],
  ])('%s are all ok', async (_, right, values = {}) => {
    expect(notOk(await examine(values, right()))).toEqual([]);
  });

  it('without hints, a login, or one in the browser leave steps unknown, which say what they need', async () => {
    const findings = await findingsOf(tenantOf());
    const unknown = findings.filter(({ status }) => status === 'unknown');
    expect(unknown.map(({ step, message }) => [step, message])).toEqual([
      ['list', expect.stringContaining('--event')],
      ['lookup', expect.stringContaining('--email')],
      ['cookies', expect.stringContaining('--start-url')],
    ]);
    const ofBrowser = ['authorize unknown', 'login unknown', 'cookies unknown'];
    const noLogin = await examine({ login: undefined });
    expect(notOk(noLogin)).toEqual(['metadata unknown', 'keys unknown', ...ofBrowser]);
    const { issuer, keys } = sandbox.tenantOptions('acme').login;
    const login = { issuer, keys, audience: { accessToken: 'portal' }, authorizedParties: ['spa'] };
    expect(notOk(await examine({ login }))).toEqual(ofBrowser);
  });
});

const fail = (): never => {
  throw new Error();
};

/** Each wrong value, and the smallest set of options that the replies tell apart. */
const MISTAKES: readonly [what: string, values: () => Values, options: string][] = [
  ['the tenant id of another', () => ({ tenantId: sandbox.tenantOptions('globex').tenantId }), 'tenantId'],
  ['a service without a trusted certificate', () => ({ baseUrl: untrusted.url }), 'baseUrl'],
  ['the service of another environment', () => ({ baseUrl: other.url }), 'authUrl baseUrl'],
  ['the port of the provider', () => ({ authUrl: DEAF }), 'authUrl'],
  ['the path of the provider', () => ({ authUrl: `${sandbox.url}/idp` }), 'authUrl'],
  ['the provider of another environment', () => ({ authUrl: other.url }), 'authUrl baseUrl'],
  ['the id of the API client', () => ({ clientId: 'acme' }), 'clientId clientSecret'],
  ['the secret of the API client', () => ({ clientSecret: 'wrong-secret' }), 'clientId clientSecret'],
  ['the login client as API client', () => ({ ...loginClient('') }), 'clientId'],
  ['a secret function that fails', () => ({ clientSecret: async () => fail() }), 'clientSecret'],
  ['the scope', () => ({ scope: 'api' }), 'scope'],
  ['a dispatcher that fails', () => ({ http: { dispatcher: fail } }), 'http.dispatcher'],
  ['an event', () => ({ eventId: 'world-1926' }), 'eventId'],
  ['an event id', () => ({ eventId: '..' }), 'eventId'],
  ['an e-mail address', () => ({ contactEmail: 'olga' }), 'contactEmail'],
  ['the id of the login client', () => ({ 'login.clientId': 'acme' }), 'login.clientId'],
  ['the API client as login client', () => apiClient(), 'login.clientId login.responseType'],
  [
    'the id of the API client in a login',
    () => ({ 'login.clientId': tenantOf().clientId }),
    'login.clientId login.clientSecret login.responseType',
  ],
  ['the secret of the login client', () => ({ 'login.clientSecret': 'wrong-secret' }), 'login.clientSecret'],
  ['no secret of the login client', () => ({ 'login.clientSecret': undefined }), 'login.clientSecret'],
  ['a redirect URI', () => ({ 'login.redirectUri': 'https://host.example.com/back' }), 'login.redirectUri'],
  [
    'a redirect URI on another host',
    () => ({ 'login.redirectUri': 'http://localhost:3000/back' }),
    'login.redirectUri',
  ],
  ['a start page without a scheme', () => ({ startUrl: 'localhost:3000' }), 'login.redirectUri'],
  ['a start page on another host', () => ({ startUrl: 'http://localhost:3000' }), 'login.redirectUri'],
  ['the issuer', () => ({ 'login.issuer': DEAF }), 'login.issuer'],
  ['the slash of the issuer', () => ({ 'login.issuer': `${sandbox.url}/` }), 'login.issuer'],
  ['an issuer that is no address', () => ({ 'login.issuer': 'acme' }), 'login.issuer'],
  [
    'the issuer of discovery',
    () => ({ 'login.issuer': `${sandbox.url}/idp`, 'login.discovery': true }),
    'login.issuer',
  ],
  ['a key', () => ({ 'login.keys': KEYS.attacker.pem }), 'login.keys'],
  ['the path of the keys', () => ({ 'login.keys': `${sandbox.url}/keys` }), 'login.keys'],
  ['an authorize endpoint', () => ({ 'endpoints.authorize': `${sandbox.url}/auth` }), 'endpoints.authorize'],
];

const loginClient = (prefix: string): Values => {
  const { login } = sandbox.tenantOptions('acme');
  return { [`${prefix}clientId`]: login.clientId, [`${prefix}clientSecret`]: login.clientSecret };
};
const apiClient = (): Values => {
  const { clientId, clientSecret } = tenantOf();
  return { 'login.clientId': clientId, 'login.clientSecret': clientSecret };
};

describe('a wrong value', () => {
  it.each(MISTAKES)('is found: %s', async (_, values, options) => {
    expect(named(await examine(values()))).toBe(options);
  });

  it('is malformed: nothing is tested', async () => {
    const [first, ...rest] = await examine({ 'login.redirectUri': '/auth/callback', baseUrl: '/' });
    expect(first).toMatchObject({ status: 'wrong', option: 'baseUrl, login.redirectUri' });
    const skipped = { status: 'unknown', message: "not tested: the step 'options' failed" };
    expect(rest).toEqual(STEPS.slice(1).map((step) => ({ step, ...skipped })));
  });

  it('is the clock of this machine', async () => {
    const { now } = Date;
    jest.spyOn(Date, 'now').mockImplementation(() => now() - 120_000);
    expect(stepOf(await examine(), 'clock')).toEqual({
      step: 'clock',
      status: 'wrong',
      option: 'login.clockTolerance',
      message: expect.stringMatching(/1(19|20|21) s behind/),
      advice: expect.stringContaining('NTP'),
    });
  });

  it('hinders later steps, which say so', async () => {
    const findings = await examine({ clientSecret: 'wrong-secret' });
    const messages = findings.filter(({ status }) => status === 'unknown').map(({ message }) => message);
    expect(messages).toEqual(
      ['token', 'tenant', 'list'].map((step) => `not tested: the step '${step}' failed`),
    );
  });

  it('is named by the first step that finds it', async () => {
    const findings = await examine({ authUrl: DEAF }, sandbox.tenantOptions('acme', { keys: 'url' }));
    const said = "not tested: the step 'connection' failed for authUrl";
    const skipped = findings.filter(({ message }) => message === said);
    expect(skipped.map(({ step }) => step)).toEqual(['token', 'authorize', 'login']);
  });

  it('is a secret with a line break, which the message says', async () => {
    const findings = await examine({ clientSecret: `${String(tenantOf().clientSecret)}\n` });
    expect(findings[0]?.message).toContain('clientSecret: begins or ends with white space');
  });

  it('is not what a service says that fails', async () => {
    sandbox.failNext('list', { kind: 'status', status: 503 }, Infinity);
    sandbox.failNext('token', { kind: 'status', status: 429 }, Infinity);
    sandbox.clearRequests();
    const findings = await examine();
    expect(named(findings)).toBe('');
    expect(stepOf(findings, 'token')?.status).toBe('unknown');
    // The list, the metadata, the token, the keys, authorize and the code: nothing is sent again.
    expect(sandbox.requests).toHaveLength(6);
  });
});

const PATHS = {
  token: '/connect/token',
  authorize: '/connect/authorize',
  metadata: '/.well-known/openid-configuration',
  keys: '/keys',
  list: '/api/v1/exhibitor/event/world-2026',
};
type Reply = [status: number, body?: unknown, headers?: Readonly<Record<string, string>>];
/** How a provider and service of a test answer. */
type Replies = Partial<Record<keyof typeof PATHS, (url: URL) => Reply>>;

describe('a provider that answers in its own way', () => {
  let server: TestServer | undefined;
  afterEach(() => server?.stop());

  const refused = (error: string) => (): Reply => [400, { error }];
  const token = (access_token: string): Reply => [200, { access_token, token_type: 'Bearer' }];
  const issued = (): Reply => token('access-1');
  const metadata = (own: object) => (): Reply => [200, { issuer: server?.url, ...own }];
  const redirect = (location: string) => (): Reply => [302, {}, { location }];
  const called = (parameters: Record<string, string>, mark = '?') => {
    const answer = `${mark}${new URLSearchParams(parameters)}`;
    return (url: URL): Reply => redirect(`${url.searchParams.get('redirect_uri')}${answer}`)();
  };

  async function examineOwn(own: Replies, values: Values = {}): Promise<Finding[]> {
    const replies: Replies = { token: refused('invalid_grant'), ...own };
    const byPath = new Map(Object.entries(PATHS).map(([name, path]) => [path, name as keyof typeof PATHS]));
    const { url } = (server = await startServer((request, response) => {
      const address = new URL(request.url ?? '', 'http://provider');
      const name = byPath.get(address.pathname);
      const [status, body = {}, headers] = (name && replies[name]?.(address)) ?? [404];
      sendJson(response, body, status, headers);
    }));
    return examine({ baseUrl: url, authUrl: url, 'login.issuer': url, ...values });
  }

  const DISCOVERY: Values = { 'login.discovery': true };
  const NO_KEYS: Values = { ...DISCOVERY, 'login.keys': undefined };
  const errorPage = redirect('/home/error?errorId=1');
  const known = called({ error: 'login_required' });
  const unsafe = metadata({ authorization_endpoint: 'http://login.example.com' });
  const says = (error: string, mark?: string): Replies => ({ authorize: called({ error }, mark) });
  const denied = (status: number, error: string) => (): Reply => [
    status,
    {},
    { 'www-authenticate': `Bearer error="${error}"` },
  ];
  const otherToken: Replies = { token: issued, list: () => [401] };
  const refusedJwt = (claims: object): Replies => ({
    token: () => token(`e30.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.AA`),
    list: () => [401],
  });
  const twoScopes = refusedJwt({ iss: 'a', scope: 'b a' });
  const otherScope = refusedJwt({ iss: 'a', scope: 'b' });
  // As Okta names scopes.
  const noScope = refusedJwt({ iss: 'a', scp: ['a'] });
  const tooLittle: Replies = { token: issued, list: denied(403, 'insufficient_scope') };
  const otherList: Replies = { token: issued, list: () => [200, { data: [] }] };
  const inTurn = (statuses: number[]): Replies => ({
    token: issued,
    list: () => [statuses.shift() ?? 503, { data: [] }],
  });
  const refusedPage: Replies = { authorize: errorPage, token: refused('invalid_client') };
  const client = 'login.clientId login.clientSecret';
  it.each<[what: string, own: Replies, steps: string, options: string, values?: Values]>([
    [
      'has an error page, and accepts any secret',
      { authorize: errorPage },
      'authorize',
      'login.clientId login.redirectUri',
    ],
    ['has one, and refuses the client', refusedPage, 'authorize login', `${client} login.redirectUri`],
    ['refuses the scope', says('invalid_scope'), 'authorize', 'login.scope'],
    ['refuses the type', says('unsupported_response_type', '#'), 'authorize', 'login.responseType'],
    ['fails', says('server_error'), 'authorize', ''],
    ['has words of its own', { authorize: known, token: refused('made_up') }, 'login', ''],
    ['is down', { metadata: () => [503] }, 'metadata', '', DISCOVERY],
    ['has no token endpoint there', { token: () => [405] }, 'token', 'authUrl'],
    ['has another issuer', { metadata: metadata({}) }, 'metadata', 'login.issuer', { 'login.issuer': DEAF }],
    ['publishes no keys', { metadata: metadata({}) }, 'keys', 'login.discovery', NO_KEYS],
    ['publishes an endpoint over http', { metadata: unsafe }, 'authorize', 'login.discovery', DISCOVERY],
    ['refuses a token', otherToken, 'tenant', 'authUrl baseUrl scope tenantId', { scope: 'other' }],
    ['refuses a token with two scopes', twoScopes, 'tenant', 'authUrl baseUrl tenantId', { scope: 'a b' }],
    ['refuses a token with another scope', otherScope, 'tenant', 'scope', { scope: 'a' }],
    [
      'refuses a token without the claim scope',
      noScope,
      'tenant',
      'authUrl baseUrl scope tenantId',
      { scope: 'a' },
    ],
    ['is down without a token, and then answers', inTurn([503, 200, 200]), 'tenant', ''],
    ['refuses the scope of a token', tooLittle, 'tenant', 'scope'],
    ['answers another list than that of the service', otherList, 'tenant', 'baseUrl'],
  ])('%s', async (_, own, steps, options, values = {}) => {
    const findings = await examineOwn(own, values);
    expect(named(findings.filter(({ step }) => steps.split(' ').includes(step)))).toBe(options);
  });

  it.each<[step: string, status: string, what: string, own: Replies]>([
    ['authorize', 'unknown', 'has a login page in spite of prompt=none', { authorize: redirect('/login') }],
    [
      'keys',
      'ok',
      'publishes keys that cannot be used beside its own',
      {
        metadata: () => [200, { issuer: server?.url, jwks_uri: `${server?.url}/keys` }],
        keys: () => [200, { keys: [{ kty: 'oct', k: 'c2VjcmV0' }, { kty: 'new' }, ...jwksOf(sandbox).keys] }],
      },
    ],
  ])('%s is %s where it %s', async (step, status, _, own) => {
    expect(stepOf(await examineOwn(own), step)?.status).toBe(status);
  });

  it.each<[what: string, provider: Reply, service: number, options: string, isLacking: boolean]>([
    ['the service refuses it too', token('access-2'), 403, 'tenantId', false],
    ['the service answers 503', token('access-2'), 503, 'scope, tenantId', false],
    ['the service answers 429', token('access-2'), 429, 'scope, tenantId', false],
    ['the provider grants none', refused('invalid_scope')(), 200, 'scope, tenantId', true],
    ['the provider answers 503', [503], 200, 'scope, tenantId', false],
  ])(
    'refuses a token without a scope, and one with idp_api is tried: %s',
    async (_, provider, service, option, lacking) => {
      const tokens = [token('access-1'), provider];
      const lists = [401, 403, service];
      const findings = await examineOwn(
        { token: () => tokens.shift() ?? [503], list: () => [lists.shift() ?? 503, { data: [] }] },
        { scope: null },
      );
      const found = stepOf(findings, 'tenant');
      expect([found?.option, found?.message.includes('grants no')]).toEqual([option, lacking]);
      expect([tokens, lists.length]).toEqual([[], provider[0] === 200 ? 0 : 1]);
    },
  );

  it('repeats secrets, tokens and addresses among terminal escapes, which no finding shows', async () => {
    const secret = 'secret-of-a-function';
    const said = `\u001b]0;x\u0007\u009b31m\u202e ${EMAIL} access-1`;
    // The secret of one client in the reply to the other.
    const tokens = [issued()];
    const own: Replies = {
      token: () => tokens.pop() ?? [400, { error: 'made_up', error_description: secret }],
      list: () => [401, { message: said }],
      metadata: () => [200, { issuer: said }],
      authorize: called({ error: 'server_error', error_description: secret }),
    };
    const findings = await examineOwn(own, { clientSecret: async () => secret });
    const messages = findings.map(({ message }) => message).join(' ');
    expect(messages).toContain("the issuer '[removed]'");
    expect(messages).toContain('the authorize endpoint answers [removed]');
    expect(messages).not.toMatch(/\p{C}|access-1/u);
    expect(messages).not.toContain(secret);
  });

  it('answers one request by a reply that is cut short, which hinders no other step', async () => {
    sandbox.failNext('discovery', truncate(), Infinity);
    expect(notOk(await examine())).toEqual(['metadata unknown', 'keys unknown']);
  });
});

describe('a diagnosis', () => {
  let silent: TestServer;
  let received = 0;
  beforeEach(async () => {
    received = 0;
    silent = await startServer(() => void (received += 1));
  });
  afterEach(() => silent.stop());

  it('ends when its signal aborts, and sends nothing more', async () => {
    const abort = new AbortController();
    const findings = diagnose({ ...tenantOf(), baseUrl: silent.url }, { signal: abort.signal });
    const steps = findings[Symbol.asyncIterator]();
    await steps.next();
    sandbox.clearRequests();
    const next = steps.next();
    void eventually(() => received === 1).then(() => abort.abort());
    await expect(next).rejects.toMatchObject({ code: 'aborted' });
    expect(await steps.next()).toEqual({ done: true, value: undefined });
    expect([received, sandbox.requests.length]).toEqual([1, 0]);
  });

  it('waits for no reply longer than an attempt may take', async () => {
    const findings = await examine({ baseUrl: silent.url, http: { attemptTimeout: 300 } });
    expect(stepOf(findings, 'connection')).toMatchObject({ status: 'wrong', option: 'baseUrl' });
  });

  it('leaves no connection open, also where its caller leaves', async () => {
    for await (const { step } of diagnose(tenantOf())) {
      if (step === 'token') {
        break;
      }
    }
    await eventually(() => openConnections(sandbox) === 0, 1_000);
  });
});

describe('the command', () => {
  const folder = mkdtempSync(join(tmpdir(), 'exhibitor-doctor-'));
  const lines: string[] = [];
  beforeEach(() => {
    lines.length = 0;
    jest.spyOn(console, 'log').mockImplementation((line: string) => void lines.push(line));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  function fileOf(name: string, content: string): string {
    const file = join(folder, name);
    writeFileSync(file, content);
    return file;
  }

  const TENANTS = fileOf('two.json', '{"tenants":{"a":{},"b":{}}}');

  it('prints a line for each step, and answers 0 where nothing is wrong', async () => {
    const config = fileOf('tenant.json', JSON.stringify(tenantOf()));
    const hints = ['--event', HINTS.eventId, '--email', EMAIL, '--start-url', START];
    expect(await run(['--config', config, ...hints])).toBe(0);
    expect(lines.map((line) => line.split(/ +/, 2).join(' '))).toEqual(STEPS.map((step) => `ok ${step}`));
  });

  it('prints lines of JSON, and answers 1 where something is wrong', async () => {
    const tenants = { acme: tenantOf(), bad: { ...tenantOf(), clientSecret: 'wrong-secret' } };
    const config = fileOf('options.json', JSON.stringify({ tenants }));
    expect(await run(['--config', config, '--tenant', 'bad', '--json'])).toBe(1);
    const findings = lines.map((line) => JSON.parse(line) as Finding);
    expect(findings.map(({ step }) => step)).toEqual(STEPS);
    expect(named(findings)).toBe('clientId clientSecret');
  });

  it('reads the environment by the names of the host of the README, with a prefix', async () => {
    const variables = sandbox.environment('acme');
    const before = { ...process.env };
    try {
      for (const [name, value] of Object.entries(variables)) {
        process.env[`ACME_${name}`] = `${value}\n`;
      }
      process.env['ACME_ISSUER'] = DEAF;
      const wrong = () => lines.splice(0).filter((line) => line.startsWith('WRONG'));
      expect(await run(['--env', 'ACME_', '--event', '..'])).toBe(1);
      expect(wrong()).toEqual([expect.stringContaining('eventId (--event): ')]);
      expect(await run(['--env', 'ACME_'])).toBe(1);
      expect(wrong()).toEqual([expect.stringContaining('login.issuer (ACME_ISSUER): ')]);
      delete process.env['ACME_TENANT_ID'];
      process.env['ACME_API_CLIENT_ID'] = '';
      expect(await run(['--env', 'ACME_'])).toBe(1);
      expect(wrong()).toEqual([
        expect.stringContaining('tenantId (ACME_TENANT_ID), clientId (ACME_API_CLIENT_ID): '),
      ]);
      await expect(run(['--env', 'NOBODY_'])).rejects.toThrow('NOBODY_TENANT_ID');
      await expect(run(['--env', 'ACME'])).rejects.toThrow('ends with _');
      // What a host refuses at its start, or sends as it is.
      for (const [name, value, option] of [
        ['LOGIN_CLIENT_SECRET', '', 'login.clientSecret (ACME_LOGIN_CLIENT_SECRET): '],
        ['COOKIE_SECRET', 'short', 'secrets.0 (ACME_COOKIE_SECRET): '],
        ['COOKIE_SECRET', '', 'secrets.0 (ACME_COOKIE_SECRET): '],
        ['TENANT_ID', `"${variables['TENANT_ID']}"`, 'tenantId (ACME_TENANT_ID): '],
        ['BASE_URL', `'${variables['BASE_URL']}'`, 'baseUrl (ACME_BASE_URL): '],
        [
          'API_CLIENT_SECRET',
          `"${variables['API_CLIENT_SECRET']}"\r\n`,
          'clientSecret (ACME_API_CLIENT_SECRET): ',
        ],
      ] as const) {
        for (const [own, right] of Object.entries(variables)) {
          process.env[`ACME_${own}`] = own === name ? value : right;
        }
        expect(await run(['--env', 'ACME_'])).toBe(1);
        const [line, ...others] = wrong();
        expect([line, others]).toEqual([expect.stringContaining(option), []]);
        expect(line?.includes('as onboarding says')).toBe(name !== 'COOKIE_SECRET');
      }
    } finally {
      process.env = before;
    }
  });

  it('names all unknown options, and wrong ones of the module', async () => {
    const { login, ...tenant } = tenantOf();
    const wrong = { ...tenant, clientID: 'a', login: { ...login, redirectURI: 'b' } };
    const config = fileOf(
      'unknown.json',
      JSON.stringify({ tenant: wrong, routes: 'auth', secret: 'c', secrets: ['d'] }),
    );
    expect(await run(['--config', config, '--json'])).toBe(1);
    const findings = lines.map((line) => JSON.parse(line) as Finding);
    expect(named(findings)).toBe('clientID login.redirectURI routes secret secrets.0');
  });

  it('reads the tenant that is named, whatever its key, and the options of the module that matter to it', async () => {
    const tenants = (key: string) => `{ ${key}: ${JSON.stringify(tenantOf())} }`;
    const elsewhere = JSON.stringify({ allowedOrigins: ['https://api.example.com'] });
    const sources: [file: string, content: string, key: string][] = [
      ['proto.json', `{ "tenants": ${tenants('"__proto__"')} }`, '__proto__'],
      ['module.json', JSON.stringify({ tenant: tenantOf(), http: { attemptTimeout: 3_000 } }), 'default'],
      [
        'source.mjs',
        `export const options = { tenants: { find: async (key) => (${tenants('a')})[key] } }`,
        'a',
      ],
      // As compilers make them of ES modules.
      ['named.cjs', `exports.__esModule = true; exports.options = { tenants: ${tenants('acme')} }`, 'acme'],
      ['default.cjs', `exports.__esModule = true; exports.default = () => (${tenants('acme')}).acme`, ''],
      ['elsewhere.mjs', `export default () => ({ tenants: ${tenants('acme')}, ...${elsewhere} })`, 'acme'],
    ];
    for (const [file, content, key] of sources) {
      const flag = file.endsWith('.json') ? '--config' : '--options';
      const code = await run([flag, fileOf(file, content), '--tenant', key]);
      expect([file, code]).toEqual([file, file === 'elsewhere.mjs' ? 1 : 0]);
    }
    expect(lines.filter((line) => line.startsWith('WRONG'))).toEqual([
      expect.stringContaining('baseUrl must be on one of allowedOrigins; authUrl must be on one of'),
    ]);
  });

  it.each([
    ['no file', () => ['--config', join(folder, 'none.json')], 'ENOENT'],
    [
      'a tenant that objects inherit',
      () => ['--config', TENANTS, '--tenant', '__proto__'],
      "no tenant '__proto__'",
    ],
    [
      'a file that is no JSON, without a part of it',
      () => ['--config', fileOf('x.json', 'wrong-secret')],
      /\(SyntaxError\)$/,
    ],
    ['several tenants', () => ['--config', TENANTS], '--tenant (a, b)'],
    ['an unknown tenant', () => ['--config', TENANTS, '--tenant', 'c'], "no tenant 'c'"],
    ['an unknown option', () => ['--verbose'], '--verbose'],
  ])('cannot run with %s', async (_, args, message) => {
    await expect(run(args())).rejects.toThrow(message);
    expect(lines).toEqual([]);
  });
});
