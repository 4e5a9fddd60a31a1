import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Logger } from '@nestjs/common';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { run } from '../../lib/doctor/doctor.command.js';
import { diagnose, type DiagnosisHints, type Finding } from '../../lib/doctor/index.js';
import type { TenantOptions } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { KEYS } from '../support/provider-keys.js';
import { jwksOf, openConnections, startSandbox } from '../support/sandbox.js';
import { follow, freePort, sendJson, startServer, type TestServer } from '../support/server.js';
import { truncate } from '../support/faults.js';
import { eventually } from '../support/wait.js';

const EMAIL = 'olga.one@example.com';
const START = 'http://127.0.0.1:3000/portal';
const HINTS = { eventId: 'world-2026', contactEmail: EMAIL, startUrl: START };
const STEPS = 'options connection clock token tenant list lookup metadata keys authorize login cookies'.split(
  ' ',
);

/** Values by the paths of their options, and hints by their names. */
type Values = Readonly<Record<string, unknown>>;

/** Requests that were sent, those under way, and the most at once. */
const sent = { all: 0, open: 0, most: 0 };
const onStart = (): void => {
  sent.all += 1;
  sent.open += 1;
  sent.most = Math.max(sent.most, sent.open);
};
const onEnd = (): void => void (sent.open -= 1);

let sandbox: ExhibitorSandbox;
let other: ExhibitorSandbox;
let untrusted: TestServer;
let deaf: string;
beforeAll(async () => {
  Logger.overrideLogger(false);
  const signingKey = KEYS.attacker.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  [sandbox, other] = await Promise.all([startSandbox(), startSandbox({ signingKey })]);
  const certificates = join(import.meta.dirname, '../transport/certificates');
  const [key, cert] = ['server.key', 'server.pem'].map((name) => readFileSync(join(certificates, name)));
  untrusted = await follow(createServer({ key, cert }), 'https');
  deaf = `http://127.0.0.1:${await freePort()}`;
  subscribe('undici:request:create', onStart);
  subscribe('undici:request:trailers', onEnd);
  subscribe('undici:request:error', onEnd);
});
beforeEach(() => void Object.assign(sent, { all: 0, open: 0, most: 0 }));
afterEach(() => {
  sandbox.clearFaults();
  jest.restoreAllMocks();
});
afterAll(async () => {
  unsubscribe('undici:request:create', onStart);
  unsubscribe('undici:request:trailers', onEnd);
  unsubscribe('undici:request:error', onEnd);
  await Promise.all([sandbox?.stop(), other?.stop(), untrusted?.stop()]);
});

/** The options of the sandbox and the hints, with these values in place of the right ones. */
function withValues(values: Values, right = tenantOf()): { options: TenantOptions; hints: DiagnosisHints } {
  const options: Record<string, unknown> = { ...right };
  const hints: Record<string, unknown> = { ...HINTS };
  for (const [path, value] of Object.entries(values)) {
    const [name = '', inner] = path.split('.');
    if (inner !== undefined) {
      options[name] = { ...Object(options[name]), [inner]: value };
    } else {
      (name in HINTS ? hints : options)[name] = value;
    }
  }
  return { options: options as unknown as TenantOptions, hints };
}

function tenantOf(): TenantOptions {
  return sandbox.tenantOptions('acme');
}

/** All findings: one for each step, from at most a dozen requests, one at a time, and without anything confidential. */
async function findingsOf(options: TenantOptions, hints: DiagnosisHints = HINTS): Promise<Finding[]> {
  sent.all = 0;
  const findings: Finding[] = [];
  for await (const finding of diagnose(options, hints)) {
    findings.push(finding);
  }
  expect(findings.map(({ step }) => step)).toEqual(STEPS);
  expect({ dozen: sent.all <= 12, most: sent.most <= 1 }).toEqual({ dozen: true, most: true });
  const text = JSON.stringify(findings);
  const secrets = [options.clientSecret, Object(options.login)['clientSecret'], EMAIL, 'eyJ'].filter(
    (secret) => typeof secret === 'string' && secret !== '',
  );
  expect(secrets.filter((secret) => text.includes(String(secret)))).toEqual([]);
  return findings;
}

/** The options that findings name. */
function named(findings: readonly Finding[]): string[] {
  const wrong = findings.filter(({ status }) => status === 'wrong');
  expect(wrong.every(({ option, advice }) => option !== undefined && advice !== undefined)).toBe(true);
  return [...new Set(wrong.flatMap(({ option = '' }) => option.split(', ')))].toSorted();
}

const statusOf = (findings: readonly Finding[], step: string) =>
  findings.find((finding) => finding.step === step)?.status;

/** The steps that are wrong or unknown. */
const notOk = async (options: TenantOptions): Promise<string[]> =>
  (await findingsOf(options)).flatMap(({ step, status }) => (status === 'ok' ? [] : [`${step} ${status}`]));

describe('right values', () => {
  it.each<[string, () => TenantOptions]>([
    ['of a JWKS', () => tenantOf()],
    [
      'of a public client, with a JWKS URL',
      () => sandbox.tenantOptions('acme', { publicClient: true, keys: 'url' }),
    ],
    ['of discovery', () => withValues({ 'login.keys': undefined, 'login.discovery': true }).options],
    [
      'with reserved characters, of a function and as PEM',
      () => {
        const { clientSecret, ...globex } = sandbox.tenantOptions('globex', { keys: 'pem' });
        return { ...globex, clientSecret: async () => clientSecret };
      },
    ],
    ['of a hybrid login', () => sandbox.tenantOptions('acme', { responseType: 'code token id_token' })],
  ])('%s are all ok', async (_, optionsOf) => {
    expect(await notOk(optionsOf())).toEqual([]);
  });

  it('without hints, a login, or one in the browser leave steps unknown, which say what they need', async () => {
    const findings = await findingsOf(tenantOf(), {});
    const unknown = findings.filter(({ status }) => status === 'unknown');
    expect(unknown.map(({ step, message }) => [step, message])).toEqual([
      ['list', expect.stringContaining('--event')],
      ['lookup', expect.stringContaining('--email')],
      ['cookies', expect.stringContaining('--start-url')],
    ]);
    const { login: _, ...service } = tenantOf();
    const ofBrowser = ['authorize unknown', 'login unknown', 'cookies unknown'];
    expect(await notOk(service)).toEqual(['metadata unknown', 'keys unknown', ...ofBrowser]);
    const { issuer, keys } = sandbox.tenantOptions('acme').login;
    const bearer = { issuer, keys, audience: { accessToken: 'portal' }, authorizedParties: ['spa'] };
    expect(await notOk({ ...service, login: bearer })).toEqual(ofBrowser);
  });
});

const fail = (): never => {
  throw new Error();
};

/** Each wrong value, and the smallest set of options that the replies tell apart. */
const MISTAKES: readonly [what: string, values: () => Values, options: string][] = [
  ['the tenant id of another', () => ({ tenantId: sandbox.tenantOptions('globex').tenantId }), 'tenantId'],
  ['a service without a trusted certificate', () => ({ baseUrl: untrusted.url }), 'baseUrl'],
  ['a service over http', () => ({ baseUrl: 'http://api.example.com' }), 'baseUrl'],
  ['the service of another environment', () => ({ baseUrl: other.url }), 'authUrl baseUrl'],
  ['the port of the provider', () => ({ authUrl: deaf }), 'authUrl'],
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
  ['a start page without a scheme', () => ({ startUrl: 'localhost:3000' }), 'startUrl'],
  ['a start page on another host', () => ({ startUrl: 'http://localhost:3000' }), 'login.redirectUri'],
  ['the issuer', () => ({ 'login.issuer': deaf }), 'login.issuer'],
  ['the slash of the issuer', () => ({ 'login.issuer': `${sandbox.url}/` }), 'login.issuer'],
  ['an issuer that is no address', () => ({ 'login.issuer': 'acme' }), 'login.issuer'],
  [
    'the issuer of discovery',
    () => ({ 'login.issuer': `${sandbox.url}/idp`, 'login.discovery': true }),
    'login.issuer',
  ],
  ['a key', () => ({ 'login.keys': KEYS.attacker.pem }), 'login.keys'],
  ['an unreadable key', () => ({ 'login.keys': '-----BEGIN PUBLIC KEY-----' }), 'login.keys'],
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
    const { options: tenant, hints } = withValues(values());
    expect(named(await findingsOf(tenant, hints)).join(' ')).toBe(options);
  });

  it('is malformed: nothing is tested', async () => {
    const { options, hints } = withValues({ 'login.redirectUri': '/auth/callback', baseUrl: '/' });
    const [first, ...rest] = await findingsOf(options, hints);
    expect(first).toMatchObject({ status: 'wrong', option: 'baseUrl, login.redirectUri' });
    const skipped = { status: 'unknown', message: "not tested: the step 'options' failed" };
    expect(rest).toEqual(STEPS.slice(1).map((step) => ({ step, ...skipped })));
  });

  it('is the clock of this machine', async () => {
    const { now } = Date;
    jest.spyOn(Date, 'now').mockImplementation(() => now() - 120_000);
    const findings = await findingsOf(tenantOf());
    expect(findings.find(({ step }) => step === 'clock')).toEqual({
      step: 'clock',
      status: 'wrong',
      option: 'login.clockTolerance',
      message: expect.stringMatching(/1(19|20|21) s behind/),
      advice: expect.stringContaining('NTP'),
    });
  });

  it('hinders later steps, which say so', async () => {
    const findings = await findingsOf({ ...tenantOf(), clientSecret: 'wrong-secret' });
    const messages = findings.filter(({ status }) => status === 'unknown').map(({ message }) => message);
    expect(messages).toEqual(
      ['token', 'tenant', 'list'].map((step) => `not tested: the step '${step}' failed`),
    );
  });

  it('is named by the first step that finds it', async () => {
    const right = sandbox.tenantOptions('acme', { keys: 'url' });
    const findings = await findingsOf(withValues({ authUrl: deaf }, right).options);
    const said = "not tested: the step 'connection' failed for authUrl";
    const skipped = findings.filter(({ message }) => message === said);
    expect(skipped.map(({ step }) => step)).toEqual(['token', 'authorize', 'login']);
  });

  it('is a secret with a line break, which the message says', async () => {
    const { options } = withValues({ clientSecret: `${String(tenantOf().clientSecret)}\n` });
    const findings = await findingsOf(options);
    expect(findings[0]?.message).toContain('clientSecret: begins or ends with white space');
  });

  it('is not what a service says that fails', async () => {
    sandbox.failNext('list', { kind: 'status', status: 503 }, Infinity);
    sandbox.failNext('token', { kind: 'status', status: 429 }, Infinity);
    const findings = await findingsOf(tenantOf());
    expect(named(findings)).toEqual([]);
    expect(statusOf(findings, 'token')).toBe('unknown');
    // The list, the metadata, the token, the keys, authorize and the code: nothing is sent again.
    expect(sent.all).toBe(6);
  });
});

type Reply = [status: number, body?: unknown, location?: string];
/** How a provider and service of a test answer. */
type Replies = Partial<Record<keyof typeof PATHS, (url: URL) => Reply>>;

const PATHS = {
  token: '/connect/token',
  authorize: '/connect/authorize',
  metadata: '/.well-known/openid-configuration',
  keys: '/keys',
  list: '/api/v1/exhibitor/event/world-2026',
};

describe('a provider that answers in its own way', () => {
  let server: TestServer | undefined;
  afterEach(() => server?.stop());

  const refused = (error: string) => (): Reply => [400, { error }];
  const issued = (): Reply => [200, { access_token: 'access-1', token_type: 'Bearer', expires_in: 3600 }];
  const metadata = (own: object) => (): Reply => [200, { issuer: server?.url, ...own }];
  const redirect = (to: string) => (): Reply => [302, {}, to];
  const called =
    (parameters: Record<string, string>) =>
    (url: URL): Reply => [
      302,
      {},
      `${url.searchParams.get('redirect_uri')}?${new URLSearchParams(parameters)}`,
    ];

  async function examine(own: Replies, values: Values = {}): Promise<Finding[]> {
    const replies: Replies = { token: refused('invalid_grant'), ...own };
    const answers = Object.entries(replies).map(([name, reply]) => [
      PATHS[name as keyof typeof PATHS],
      reply,
    ]);
    const byPath = new Map(answers as [string, (url: URL) => Reply][]);
    server = await startServer((request, response) => {
      const url = new URL(request.url ?? '', 'http://provider');
      const [status, body = {}, location] = byPath.get(url.pathname)?.(url) ?? [404];
      sendJson(response, body, status, location === undefined ? {} : { location });
    });
    const right = { ...tenantOf(), baseUrl: server.url, authUrl: server.url };
    const { options, hints } = withValues({ 'login.issuer': server.url, ...values }, right);
    return findingsOf(options, hints);
  }

  const DISCOVERY: Values = { 'login.discovery': true };
  const NO_KEYS: Values = { ...DISCOVERY, 'login.keys': undefined };
  const errorPage = redirect('/home/error?errorId=1');
  const known = called({ error: 'login_required' });
  const unsafe = metadata({ authorization_endpoint: 'http://login.example.com' });
  const says = (error: string): Replies => ({ authorize: called({ error }) });
  const afterLogin = (error: string): Replies => ({ authorize: known, token: refused(error) });
  const otherToken: Replies = { token: issued, list: () => [401] };
  const otherList: Replies = { token: issued, list: () => [200, { data: [] }] };
  const client = 'login.clientId login.clientSecret';
  it.each<[what: string, own: Replies, steps: string, options: string, values?: Values]>([
    [
      'has an error page, and accepts the client',
      { authorize: errorPage },
      'authorize login',
      'login.redirectUri',
    ],
    [
      'has an error page, and refuses the client',
      { authorize: errorPage, token: refused('invalid_client') },
      'authorize login',
      `${client} login.redirectUri`,
    ],
    ['refuses the scope', says('invalid_scope'), 'authorize', 'login.scope'],
    ['refuses the type', says('unsupported_response_type'), 'authorize', 'login.responseType'],
    ['refuses the flow', says('unauthorized_client'), 'authorize', 'login.clientId login.responseType'],
    ['fails', says('server_error'), 'authorize', ''],
    ['refuses the secret', afterLogin('invalid_client'), 'login', 'login.clientSecret'],
    ['has no such grant', afterLogin('unsupported_grant_type'), 'login', ''],
    ['refuses the request', afterLogin('invalid_request'), 'login', ''],
    ['has words of its own', afterLogin('made_up'), 'login', 'authUrl'],
    ['publishes no keys', { metadata: metadata({}) }, 'keys', 'login.discovery', NO_KEYS],
    ['publishes an endpoint over http', { metadata: unsafe }, 'authorize', 'login.discovery', DISCOVERY],
    [
      'refuses a token that is no JWT',
      otherToken,
      'tenant',
      'authUrl baseUrl scope tenantId',
      { scope: 'other' },
    ],
    ['answers another list than that of the service', otherList, 'tenant', 'baseUrl'],
  ])('%s', async (_, own, steps, options, values = {}) => {
    const findings = await examine(own, values);
    expect(named(findings.filter(({ step }) => steps.split(' ').includes(step))).join(' ')).toBe(options);
  });

  it('redirects to its login page in spite of prompt=none, which proves nothing', async () => {
    const findings = await examine({ authorize: redirect('/account/login') });
    expect(statusOf(findings, 'authorize')).toBe('unknown');
    await server?.stop();
    const authorize = (await examine({ authorize: known })).find(({ step }) => step === 'authorize');
    expect(authorize).toMatchObject({ status: 'ok', message: expect.stringContaining('login.clientId') });
  });

  it('publishes keys that cannot be used beside its own', async () => {
    const unusable = [{ kty: 'oct', k: 'c2VjcmV0' }, { kty: 'new' }];
    const findings = await examine({
      metadata: () => [200, { issuer: server?.url, jwks_uri: `${server?.url}/keys` }],
      keys: () => [200, { keys: [...unusable, ...jwksOf(sandbox).keys] }],
    });
    expect(statusOf(findings, 'keys')).toBe('ok');
  });

  it('repeats secrets, tokens and addresses among terminal escapes, which no finding shows', async () => {
    const secret = String(tenantOf().clientSecret);
    const said = `\u001b]0;x\u0007\u009b31m\u202e ${EMAIL} access-1`;
    const own: Replies = {
      token: issued,
      list: () => [401, { message: said }],
      metadata: () => [200, { issuer: said }],
      authorize: called({ error: 'server_error', error_description: secret }),
    };
    const findings = await examine(own, { clientSecret: async () => secret });
    const messages = findings.map(({ message }) => message).join(' ');
    expect(messages).toContain("the issuer '[removed]'");
    expect(messages).toContain('the authorize endpoint answers [removed]');
    expect(messages).not.toMatch(/\p{C}|access-1/u);
    expect(messages).not.toContain(secret);
  });

  it('answers one request by a reply that is cut short, which hinders no other step', async () => {
    sandbox.failNext('discovery', truncate(), Infinity);
    expect(await notOk(tenantOf())).toEqual(['metadata unknown', 'keys unknown']);
  });
});

describe('a diagnosis', () => {
  it('ends when its signal aborts, and sends nothing more', async () => {
    const silent = await startServer(() => undefined);
    const abort = new AbortController();
    const findings = diagnose({ ...tenantOf(), baseUrl: silent.url }, { signal: abort.signal });
    const first = findings[Symbol.asyncIterator]();
    await first.next();
    const next = first.next();
    setTimeout(() => abort.abort(), 20);
    await expect(next).rejects.toMatchObject({ code: 'aborted' });
    expect(await first.next()).toEqual({ done: true, value: undefined });
    expect(sent.all).toBe(1);
    await silent.stop();
  });

  it('waits for no reply longer than an attempt may take', async () => {
    const silent = await startServer(() => undefined);
    const findings = await findingsOf({ ...tenantOf(), baseUrl: silent.url, http: { attemptTimeout: 300 } });
    const [, connection] = findings;
    expect(connection).toMatchObject({ step: 'connection', status: 'wrong', option: 'baseUrl' });
    await silent.stop();
  });

  it('leaves no connection open, also where its caller leaves', async () => {
    for await (const { step } of diagnose(tenantOf())) {
      if (step === 'token') {
        break;
      }
    }
    await eventually(() => openConnections(sandbox) === 0);
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
    const config = fileOf('options.json', JSON.stringify({ tenants, secrets: [] }));
    expect(await run(['--config', config, '--tenant', 'bad', '--json'])).toBe(1);
    const findings = lines.map((line) => JSON.parse(line) as Finding);
    expect(findings.map(({ step }) => step)).toEqual(STEPS);
    expect(named(findings)).toEqual(['clientId', 'clientSecret']);
  });

  it('reads the environment by the names of the host of the README, with a prefix', async () => {
    const variables = sandbox.environment('acme');
    const before = { ...process.env };
    try {
      for (const [name, value] of Object.entries(variables)) {
        process.env[`ACME_${name}`] = value;
      }
      process.env['ACME_ISSUER'] = deaf;
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
    } finally {
      process.env = before;
    }
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
      'an env file as its configuration',
      () => ['--config', fileOf('host.env', 'TENANT_ID=acme')],
      /host\.env cannot be read .* node --env-file=FILE \S+\.js doctor$/,
    ],
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
