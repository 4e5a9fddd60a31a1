import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { ConfigurationError } from '../../lib/errors/configuration.error.js';
import { checkOptions, checkTenant } from '../../lib/config/check-options.js';
import type { TenantSettings } from '../../lib/config/tenant-settings.js';
import { originOf } from '../../lib/http/wire/http-client.js';
import { pemOf } from '../support/keys.js';

const privateKey = createPrivateKey(pemOf('provider'));
const publicKey = createPublicKey(privateKey);
const PEM = publicKey.export({ type: 'spki', format: 'pem' }).toString();
const SECRETS = ['0123456789abcdef0123456789abcdef'];

const login = () => ({
  clientId: 'acme-web',
  redirectUri: 'https://host.example/auth/callback',
  issuer: 'https://login.example',
  keys: PEM,
});

const tenant = () => ({
  tenantId: 'acme-guid',
  baseUrl: 'https://api.example',
  authUrl: 'https://login.example',
  clientId: 'acme-api',
  clientSecret: 'api-secret',
});

/** A private key with a giant member. Node imports it at once; its details took up to a minute. */
const giant = {
  ...privateKey.export({ format: 'jwk' }),
  e: Buffer.alloc(120_000, 0xf1).toString('base64url'),
};
const giantPem = (type: 'spki' | 'pkcs8') =>
  (type === 'spki' ? createPublicKey : createPrivateKey)({ key: giant, format: 'jwk' })
    .export({ type, format: 'pem' })
    .toString();

const shortKey = () => generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey;

/** The result of a check, or the error of options that are refused. */
function resultOf<T>(check: () => T): T | ConfigurationError {
  try {
    return check();
  } catch (error) {
    if (error instanceof ConfigurationError) {
      return error;
    }
    throw error;
  }
}

/** Problems of options, `path: expected`. */
function problems(options: unknown): string[] {
  const result = resultOf(() => checkOptions(options));
  return result instanceof ConfigurationError
    ? result.problems.map(({ path, expected }) => `${path}: ${expected}`)
    : [];
}

/** The tenant of options that are right. */
function tenantOf(change: object, others: object = {}): Partial<TenantSettings> {
  const { tenants } = checkOptions({ tenant: { ...tenant(), ...change }, secrets: SECRETS, ...others });
  return 'get' in tenants ? (tenants.get('default') ?? {}) : {};
}

const JWK = publicKey.export({ format: 'jwk' });
const ONE_OF_BOTH = 'exactly one of tenant and tenants must be given';
const HTTPS = 'must be https (http only for localhost, *.localhost, 127.0.0.0/8 and [::1])';
const ORIGIN = 'must be an origin, https://host[:port]';
const ONLY_PUBLIC = 'must hold public keys only';
const NO_KEY = 'must be the public key as PEM, JWK or JWKS, or the URL of a JWKS';
const TOO_LONG = 'must have at most 16384 characters';
const RSA_ALGORITHMS = 'RS256, RS384, RS512, PS256, PS384, PS512';
const ALGORITHMS =
  "must be one of 'RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'";
const whole = (unit: string, from: number, to = 2_147_483_647): string =>
  `must be a whole number of ${unit} from ${from} to ${to}`;
/** Browsers keep no cookie longer. */
const DAYS_400 = 34_560_000_000;
const SAME_SITE =
  "must be 'lax' or 'none': with 'strict', a browser that comes back from a provider on another site sends no identity, and its login never ends";

/** Options that are right, but for the value at this path. */
function withValue(path: string, value: unknown): object {
  const options = { tenant: { ...tenant(), login: login() }, secrets: SECRETS };
  const names = path.split('.');
  const last = names.pop() ?? '';
  const parent = names.reduce<Record<string, unknown>>(
    (outer, name) => (outer[name] = { ...Object(outer[name]) }),
    options,
  );
  parent[last] = value;
  return options;
}

describe('the options', () => {
  it('are complete with one tenant and its five fields; undefined is the same as absent', () => {
    const http = { deadline: undefined, attempts: undefined, dispatcher: undefined };
    const { settings, tenants } = checkOptions({
      tenant: { ...tenant(), http, login: undefined, scope: undefined, clientAuth: undefined },
      tenants: undefined,
      http,
      secrets: undefined,
      lookupCache: { ttl: undefined },
      exhibitorSchema: undefined,
    });
    const absent = checkOptions({ tenant: { ...tenant(), http: {} } });
    expect(settings).toEqual(absent.settings);
    expect(tenants).toEqual(absent.tenants);
    expect(settings).toMatchObject({
      session: ['cookie'],
      secrets: [],
      cookies: { loginTtl: 3_600_000, identityTtl: 28_800_000, absoluteTtl: 28_800_000, sameSite: 'lax' },
      tenantCache: { ttl: 60_000, max: 10_000, staleIfError: 3_600_000 },
      lookupCache: { ttl: 60_000, max: 10_000, staleIfError: 0, maxBytes: 67_108_864 },
      logoutCheck: { ttl: 1_000, provider: false },
      http: {
        deadline: 10_000,
        attemptTimeout: 4_000,
        attempts: 3,
        maxResponseBytes: 2_097_152,
        maxConcurrent: 64,
        maxConnections: 256,
      },
    });
    expect(tenants).toEqual(new Map([['default', { ...tenant(), http: {}, scope: 'idp_api' }]]));
  });

  it('keep cookies for 400 days at most', () => {
    const cookies = { loginTtl: DAYS_400, identityTtl: DAYS_400, absoluteTtl: DAYS_400 };
    expect(checkOptions({ tenant: tenant(), cookies }).settings.cookies).toMatchObject(cookies);
  });

  it('have the documented login defaults', () => {
    expect(tenantOf({ login: login() }).login).toMatchObject({
      algorithms: ['RS256', 'PS256', 'ES256'],
      clockTolerance: 30,
      emailClaim: 'email',
      scope: 'openid profile',
      responseType: 'code',
      clientAuth: 'post',
      requireVerifiedEmail: false,
    });
  });

  it('report every broken rule between options at once, where all shapes are right', () => {
    const broken = {
      tenants: {
        acme: { ...tenant(), clientSecret: undefined, login: { ...login(), redirectUri: undefined } },
        globex: { ...tenant(), login: { ...login(), keys: undefined } },
      },
      cookies: { absoluteTtl: 1 },
      allowedOrigins: ['https://login.example'],
    };
    expect(problems(broken)).toEqual([
      'secrets: is required with a login: one or more strings of at least 32 characters',
      'cookies.absoluteTtl: must be at least identityTtl',
      'tenants.acme.clientSecret: is required',
      'tenants.acme.login.redirectUri: is required',
      'tenants.acme.baseUrl: must be on one of allowedOrigins',
      'tenants.globex.login.keys: is required',
      'tenants.globex.baseUrl: must be on one of allowedOrigins',
    ]);
    expect(problems({ ...broken, http: { attempts: 0 } })).toEqual([
      'http.attempts: must be a whole number of requests from 1 to 10',
    ]);
  });

  it('name all unknown options, at every level and of every tenant, with the other wrong shapes', () => {
    const unknown = { one: undefined, 'two three': 2 };
    const wrong = {
      ...tenant(),
      ...unknown,
      tenantId: 7,
      clientAuth: { privateKey, ...unknown },
      endpoints: unknown,
      http: { ...unknown, attempts: 0 },
      login: { ...login(), ...unknown, audience: unknown },
    };
    const named = (path: string) => Object.keys(unknown).map((name) => `${path}${name}: is not an option`);
    const ofTenant = (path: string) => [
      `${path}tenantId: must be a string`,
      ...named(`${path}clientAuth.`),
      ...named(`${path}endpoints.`),
      `${path}http.attempts: must be a whole number of requests from 1 to 10`,
      ...named(`${path}http.`),
      ...named(`${path}login.audience.`),
      ...named(`${path}login.`),
      ...named(path),
    ];
    const groups = { tenantCache: unknown, cookies: unknown, lookupCache: unknown, logoutCheck: unknown };
    const options = { tenants: { acme: wrong, globex: wrong }, ...groups, http: unknown, ...unknown };
    const expected = [
      ...Object.keys({ ...groups, http: 0 }).flatMap((name) => named(`${name}.`)),
      ...['acme', 'globex'].flatMap((key) => ofTenant(`tenants.${key}.`)),
      ...named(''),
    ];
    expect(problems(options).toSorted()).toEqual(expected.toSorted());
    const ofSource = resultOf(() => checkTenant(wrong, 'acme', checkOptions({ tenant: tenant() }).settings));
    expect(ofSource).toMatchObject({ problems: { length: ofTenant('').length } });
    // Customers of a host may write the options of a source.
    const many = Object.fromEntries(Array.from({ length: 50_000 }, (_, index) => [`unknown${index}`, 1]));
    const { settings } = checkOptions({ tenant: tenant() });
    expect(resultOf(() => checkTenant(many, 'acme', settings))).toMatchObject({ problems: { length: 100 } });
  });

  it.each([
    [undefined, ': must be an object of options'],
    [{}, `tenants: ${ONE_OF_BOTH}`],
    [{ tenant: tenant(), tenants: { acme: tenant() } }, `tenants: ${ONE_OF_BOTH}`],
    [{ tenants: {} }, 'tenants: must be an object of one or more tenants by key, or have a find method'],
    [{ tenant: tenant(), store: new Map() }, 'secrets: is required with store'],
    ...['', 'k'.repeat(129), 'é'.repeat(65)].map((key): [object, string] => [
      { tenants: { [key]: tenant() } },
      `tenants.${key}: must have a key of 1 to 128 bytes`,
    ]),
  ])('refuse %j', (options, problem) => {
    expect(problems(options)).toEqual([problem]);
  });

  it.each<[path: string, value: unknown, expected: string, named?: string]>([
    ['secrets', undefined, 'is required with a login: one or more strings of at least 32 characters'],
    ['secrets', ['too short'], 'must have at least 32 characters', 'secrets.0'],
    ['secrets', ['abcdefghijk'.repeat(3)], 'must have at least 12 different characters', 'secrets.0'],
    ['cookies.absoluteTtl', 28_799_999, 'must be at least identityTtl'],
    ...['loginTtl', 'identityTtl', 'absoluteTtl'].flatMap((name) =>
      [0, DAYS_400 + 1, Infinity].map((value): [string, number, string] => [
        `cookies.${name}`,
        value,
        whole('milliseconds', 1, DAYS_400),
      ]),
    ),
    ...['strict', 'Strict', true].map((value): [string, unknown, string] => [
      'cookies.sameSite',
      value,
      SAME_SITE,
    ]),
    ['session', ['cookie', 'host'], "must not name both 'cookie' and 'host': one of them keeps the identity"],
    ['session', ['host', 'jwt'], "must be one of 'cookie', 'host', 'bearer'", 'session.1'],
    ['session', 'jwt', "must be 'cookie', 'host', 'bearer' or a list of them"],
    ['session', [], 'must not be empty'],
    ['lookupCache', true, 'must be { ttl, max, maxBytes, staleIfError } or false'],
    ['lookupCache.ttl', 'soon', whole('milliseconds', 1)],
    ['lookupCache.size', 7, 'is not an option'],
    ['logoutCheck', false, 'must be { ttl, provider }'],
    ['logoutCheck.ttl', -1, whole('milliseconds', 0)],
    ['allowedOrigins', ['https://api.example/v1'], ORIGIN, 'allowedOrigins.0'],
    ['trustedOrigins', ['https://x.example/page'], ORIGIN, 'trustedOrigins.0'],
    ['trustedOrigins', '*', 'must be a list of origins'],
    ['http.maxConcurrent', 'many', 'must be a whole number of requests from 1 to 10000'],
    ['http.maxConnections', 0, 'must be a whole number of connections from 1 to 10000'],
    ['tenant.http.maxConnections', 8, 'is not an option'],
    ['tenant.http.attempts', 1.5, 'must be a whole number of requests from 1 to 10'],
    ['tenant.tenantId', 'a\r\nb', 'must be printable ASCII without surrounding spaces'],
    ['tenant.baseURL', 'https://typo.example', 'is not an option'],
    ['tenant.clientId', undefined, 'is required'],
    ['tenant.clientSecret', undefined, 'is required'],
    ['tenant.clientSecret', 7, 'must be a non-empty string or a function'],
    ['tenant.baseUrl', '', 'must be an absolute URL'],
    ['tenant.baseUrl', 'https://me:pw@api.example', 'must not contain credentials'],
    ['tenant.authUrl', 'https://login.example?x=1', 'must not contain a query'],
    ['tenant.authUrl', '/login', 'must be an absolute URL'],
    ['tenant.login.redirectUri', 'HTTPS://host.example/auth', 'must begin with https: or http:'],
    ['tenant.endpoints.endSession', '/logout', 'must be an absolute URL'],
    ['tenant.endpoints.revoke', 'https://login.example/revoke', 'is not an option'],
    ['tenant.clientAuth', 'tls', "must be 'post', 'basic' or { privateKey, kid, alg, audience }"],
    [
      'tenant.clientAuth',
      { privateKey, alg: 'ES256' },
      `must have an alg that fits its key: ${RSA_ALGORITHMS}`,
    ],
    ['tenant.clientAuth.privateKey', undefined, 'is required'],
    ...[PEM, 'not a key', 7, {}, { ...publicKey.export({ format: 'jwk' }) }].map(
      (key): [string, unknown, string] => [
        'tenant.clientAuth.privateKey',
        key,
        'must be a private key as PEM, JWK or KeyObject, not encrypted',
      ],
    ),
    ['tenant.clientAuth.privateKey', giant, TOO_LONG],
    ['tenant.clientAuth.privateKey', giantPem('pkcs8'), TOO_LONG],
    ['tenant.clientAuth.privateKey', shortKey(), 'must have at least 2048 bits'],
    [
      'tenant.clientAuth.privateKey',
      generateKeyPairSync('x25519').privateKey,
      'must be an RSA key, an EC key (P-256, P-384 or P-521) or an Ed25519 key',
    ],
    ['tenant.login.algorithms', ['none'], ALGORITHMS, 'tenant.login.algorithms.0'],
    ...['acme', 'http://login.example', 'https://login.example?x=1', 'https://login.example#x'].map(
      (issuer): [string, unknown, string, string] => [
        'tenant.login',
        { ...login(), issuer, discovery: true },
        'must be an https URL without a query (http only for loopback hosts) with discovery',
        'tenant.login.issuer',
      ],
    ),
    ['tenant.login.audience', 7, 'must be a string, or { idToken, accessToken }'],
    ['tenant.login.audience.accessToken', 7, 'must be a string'],
    ['tenant.login.audience.access', 'api', 'is not an option'],
    ['tenant.login.keys', undefined, 'is required'],
    [
      'tenant.login.keys',
      privateKey.export({ type: 'pkcs8', format: 'pem' }),
      'must be a public key, not a private one',
    ],
    ['tenant.login.keys', privateKey.export({ format: 'jwk' }), ONLY_PUBLIC],
    ['tenant.login.keys', { kty: 'oct', k: 'c2VjcmV0' }, ONLY_PUBLIC],
    ['tenant.login.keys', { keys: [JWK, { ...JWK, d: '' }] }, ONLY_PUBLIC],
    ['tenant.login.keys', { keys: [JWK, null] }, NO_KEY],
    [
      'tenant.login.keys',
      '-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----',
      'must be a readable PEM (SPKI, PKCS#1 or certificate), with its line breaks, which may be written as \\n',
    ],
    ['tenant.login.keys', giantPem('spki'), TOO_LONG],
    ['tenant.login.keys', '{"keys":', NO_KEY],
    ['tenant.login.keys', 'http://login.example/jwks', HTTPS],
    ['tenant.login.keys', { keys: Array(101).fill(JWK) }, 'must hold at most 100 keys'],
    ['tenant.login.keys', { keys: [] }, NO_KEY],
    ['tenant.login.keys', 'secret', NO_KEY],
  ])('refuse a wrong %s (%#)', (path, value, expected, named = path) => {
    expect(problems(withValue(path, value))).toEqual([`${named}: ${expected}`]);
  });

  it('accept a private key instead of a secret, as PEM, JWK or KeyObject', () => {
    const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
    const jwk = { ...privateKey.export({ format: 'jwk' }), kid: 'of the JWK', alg: 'PS256' };
    const escaped = ['\\n', '\\r\\n'].map((lineBreak) => pem.replaceAll('\n', lineBreak));
    const given = [pem, ...escaped, jwk, JSON.stringify(jwk), privateKey];
    const parsed = given.map(
      (key) => tenantOf({ clientSecret: undefined, clientAuth: { privateKey: key } }).clientAuth,
    );
    const rs256 = { privateKey: expect.anything(), alg: 'RS256' };
    const ps256 = { privateKey: expect.anything(), alg: 'PS256', kid: 'of the JWK' };
    expect(parsed).toEqual([rs256, rs256, rs256, ps256, ps256, rs256]);
  });

  it('accept a base path without its trailing slash, and plain http for loopback hosts only', () => {
    const baseUrl = 'https://api.example/exhibitors/';
    expect(tenantOf({ baseUrl }).baseUrl).toBe('https://api.example/exhibitors');
    const at = (host: string) => problems({ tenant: { ...tenant(), baseUrl: `http://${host}` } });
    for (const host of [
      'localhost:8080',
      'acme.localhost:8080',
      '127.0.0.1:8080',
      '127.8.0.1',
      '[::1]:8080',
    ]) {
      expect(at(host)).toEqual([]);
    }
    for (const host of ['localhost.example', 'mylocalhost', '127.example', '128.0.0.1', '[::2]']) {
      expect(at(host)).toEqual([`tenant.baseUrl: ${HTTPS}`]);
    }
  });

  it('check every URL against allowedOrigins', () => {
    const keys = 'https://keys.example/jwks';
    const url = 'https://id.example/any';
    const endpoints = { authorize: url, token: url, userinfo: url, endSession: url };
    const paths = Object.keys(endpoints).map((name) => `endpoints.${name}`);
    const issuer = { issuer: 'https://id.example', discovery: true };
    const options = {
      tenant: { ...tenant(), endpoints, login: { ...login(), ...issuer, keys } },
      secrets: SECRETS,
    };
    const allowedOrigins = ['https://api.example'];
    expect(problems({ ...options, allowedOrigins })).toEqual(
      ['authUrl', ...paths, 'login.keys', 'login.issuer'].map(
        (name) => `tenant.${name}: must be on one of allowedOrigins`,
      ),
    );
    allowedOrigins.push('https://login.example', 'https://keys.example/', 'https://id.example');
    expect(problems({ ...options, allowedOrigins })).toEqual([]);
  });

  it('ask a function of the host, with the origin and the key of the tenant', () => {
    const asked = new Set<string>();
    const allowedOrigins = (origin: string, tenantKey: string): boolean => {
      asked.add(`${tenantKey} ${origin}`);
      return tenantKey === 'acme' || origin === 'https://api.example';
    };
    const tenants = { acme: tenant(), globex: tenant() };
    expect(problems({ tenants, allowedOrigins })).toEqual([
      'tenants.globex.authUrl: must be on one of allowedOrigins',
    ]);
    expect(asked).toEqual(
      new Set(
        ['acme', 'globex'].flatMap((key) => [`${key} https://api.example`, `${key} https://login.example`]),
      ),
    );
    // A promise is no answer, nor is one that is rejected.
    expect(problems({ tenant: tenant(), allowedOrigins: () => Promise.reject(new Error()) })).toHaveLength(2);
    const later = () => Promise.resolve(true) as unknown as boolean;
    expect(problems({ tenant: tenant(), allowedOrigins: later })).toHaveLength(2);
  });

  it('name allowedOrigins where that function throws', () => {
    const cause = new Error('the list of origins is not loaded');
    const allowedOrigins = () => {
      throw cause;
    };
    const { problems: found, cause: shown } = resultOf(() =>
      checkOptions({ tenant: tenant(), allowedOrigins }),
    ) as ConfigurationError;
    expect([found.map(({ path }) => path), shown]).toEqual([['allowedOrigins'], cause]);
  });

  it.each([
    'https://API.EXAMPLE/x',
    'https://api.example.',
    'https://api.example:8443',
    'https://api.example@evil.example',
    'https://evil.example\\@api.example',
    'https://api.example%2eevil.example',
    'https://api.example\t.evil.example',
    'https:///api.example/x',
    'https:\\\\api.example\\x',
    '//api.example',
    'https://api.example//evil.example/',
    'https:api.example//evil.example/x',
    'https://bücher.example',
    'https://ａpi.example',
    'http://[0:0::1]:80',
    'http://127.1',
    'blob:https://api.example/x',
  ])('are refused or sent to an allowed origin, however it is spelled: %j', (url) => {
    const allowedOrigins = ['https://api.example', 'http://[::1]', 'https://xn--bcher-kva.example'];
    const usual = { authUrl: 'https://api.example', login: login() };
    for (const changed of [
      { baseUrl: url },
      { endpoints: { token: url } },
      { login: { ...login(), keys: url } },
    ]) {
      const checked = resultOf(() => tenantOf({ ...usual, ...changed }, { allowedOrigins }));
      const {
        baseUrl,
        endpoints,
        login: { keys } = {},
      } = checked instanceof ConfigurationError ? {} : checked;
      const sent = [baseUrl, endpoints?.token, keys?.kind === 'url' ? keys.url : undefined];
      for (const one of sent.filter((value) => value !== undefined)) {
        expect(allowedOrigins).toContain(new URL(originOf(one)).origin);
      }
    }
  });

  it('require allowedOrigins with a source, and say what is at stake', () => {
    const source = { tenants: { find: () => tenant() } };
    const required = expect.stringMatching(
      /^allowedOrigins: is required with a TenantSource: [^.]+ log in as them\. [^.]+$/,
    );
    expect(problems(source)).toEqual([required]);
    for (const allowedOrigins of ['https://api.example', 'any', 7]) {
      expect(problems({ ...source, allowedOrigins })).toEqual([
        'allowedOrigins: must be a list of origins or a function',
      ]);
    }
    expect(problems({ ...source, allowedOrigins: [] })).toEqual([]);
    expect(problems({ ...source, allowedOrigins: () => true })).toEqual([]);
  });

  it('never show a value, which may be a secret', () => {
    const value = 'hunter2-hunter2';
    const wrong = {
      tenant: {
        ...tenant(),
        clientId: [value],
        scope: { value },
        login: { ...login(), clientSecret: 7, keys: value },
      },
      secrets: [value],
    };
    expect(problems(wrong).length).toBeGreaterThan(3);
    expect(problems(wrong).join()).not.toContain(value);
  });
});

describe('an option of several forms', () => {
  it.each<[path: string, values: unknown[]]>([
    ['lookupCache', [false, {}, { ttl: 1 }]],
    ['session', ['host', ['cookie']]],
    ['tenant.login.audience', ['web', {}, { idToken: 'web', accessToken: 'api' }]],
    [
      'tenant.login.keys',
      [
        PEM,
        publicKey.export({ type: 'pkcs1', format: 'pem' }),
        ...[JWK, { keys: [JWK] }, { ...JWK, d: null, kid: null }].flatMap((keys) => [
          keys,
          JSON.stringify(keys),
        ]),
        'https://login.example/jwks?version=2',
      ],
    ],
  ])('is accepted in each of its forms: %s', (path, values) => {
    for (const value of values) {
      expect(problems(withValue(path, value))).toEqual([]);
    }
  });
});

it("session 'bearer' requires audience and authorizedParties; secrets and a redirectUri only beside a browser login", () => {
  const parties = { audience: { accessToken: 'api' }, authorizedParties: ['spa'] };
  const at = (session: unknown, others: object = parties) => {
    const { issuer, keys } = login();
    return problems({ tenant: { ...tenant(), login: { issuer, keys, ...others } }, session });
  };
  expect(at('bearer')).toEqual([]);
  expect(at('bearer', {})).toEqual([
    "tenant.login.audience.accessToken: is required with session 'bearer'",
    "tenant.login.authorizedParties: is required with session 'bearer'",
  ]);
  expect(at(['cookie', 'bearer'])).toEqual([
    'secrets: is required with a login: one or more strings of at least 32 characters',
    'tenant.login.clientId: is required',
    'tenant.login.redirectUri: is required',
  ]);
});
