import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { ConfigurationError } from '../../lib/errors/configuration.error.js';
import { checkOptions, checkTenant } from '../../lib/options/check-options.js';
import type { ExhibitorSettings } from '../../lib/options/exhibitor-settings.js';
import type { TenantSettings } from '../../lib/options/tenant-settings.js';
import { splitUrl } from '../../lib/transport/wire/http-client.js';
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
function giantKey(member: 'n' | 'e' | 'p') {
  const jwk = privateKey.export({ format: 'jwk' });
  return { ...jwk, [member]: Buffer.alloc(120_000, 0xf1).toString('base64url') };
}
const giantPem = (member: 'n' | 'e', type: 'spki' | 'pkcs8') =>
  (type === 'spki' ? createPublicKey : createPrivateKey)({ key: giantKey(member), format: 'jwk' })
    .export({ type, format: 'pem' })
    .toString();

const shortKey = () => generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey;

/** A URL on an allowed origin, or one that a parser might take for it. */
const SPELLINGS = [
  'https://API.EXAMPLE/x',
  'HTTPS://api.example',
  'https://api.example:443',
  'https://api.example.',
  'https://api.example:8443',
  'https://api.example@evil.example',
  'https://evil.example\\@api.example',
  'https://api.example\\@evil.example',
  'https://api.example%2eevil.example',
  'https://api.example#@x',
  'https://api.example\t.evil.example',
  'https://api.ex\nample',
  'https:api.example',
  'https:/api.example',
  'https:///api.example/x',
  'https:////api.example//evil.example',
  'https:\\\\api.example\\x',
  '//api.example',
  'https://api.example//evil.example/',
  'https:api.example//evil.example/x',
  'https://api.example/..//x',
  'https://bücher.example',
  'https://ａpi.example',
  'https://api。example',
  'https://api.example\u00ad',
  'http://[::1]',
  'http://[0:0::1]:80',
  'http://[::ffff:7f00:1]',
  'http://[::1%25lo]',
  'http://localhost',
  'http://127.1',
  'blob:https://api.example/x',
  'https://api.example?x',
  'https://*.example',
  'null',
];

/** Problems of options, `path: expected`. */
function problems(options: unknown): string[] {
  try {
    checkOptions(options);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigurationError)) {
      throw error;
    }
    return error.problems.map(({ path, expected }) => `${path}: ${expected}`);
  }
}

/** A tenant of a source; `undefined` where it is refused. */
function acceptedTenant(options: object, settings: ExhibitorSettings): TenantSettings | undefined {
  try {
    return checkTenant(options, 'acme', settings);
  } catch (error) {
    if (!(error instanceof ConfigurationError)) {
      throw error;
    }
    return undefined;
  }
}

describe('the options', () => {
  it('may be undefined, which is the same as absent', () => {
    const http = { deadline: undefined, attempts: undefined, dispatcher: undefined };
    const without = checkOptions({ tenant: { ...tenant(), http: {} } });
    const undefinedOnes = checkOptions({
      tenant: { ...tenant(), http, login: undefined, scope: undefined, clientAuth: undefined },
      tenants: undefined,
      http,
      secrets: undefined,
      lookupCache: { ttl: undefined },
      exhibitorSchema: undefined,
    });
    expect(undefinedOnes.settings).toEqual(without.settings);
    expect(undefinedOnes.settings.http.deadline).toBe(10_000);
    expect(undefinedOnes.tenants).toStrictEqual(
      new Map([
        ['default', { ...tenant(), scope: 'idp_api', http: {}, clientAuth: undefined, login: undefined }],
      ]),
    );
  });

  it('are complete with one tenant and its five fields', () => {
    const { settings, tenants } = checkOptions({ tenant: tenant() });
    expect(settings).toMatchObject({
      session: ['cookie'],
      secrets: [],
      cookies: { loginTtl: 600_000, identityTtl: 28_800_000, absoluteTtl: 28_800_000, sameSite: 'lax' },
      tenantCache: { ttl: 60_000, max: 10_000, staleIfError: 3_600_000 },
      lookupCache: { ttl: 60_000, max: 10_000, staleIfError: 0, maxBytes: 67_108_864 },
      logoutCheck: { ttl: 1_000, provider: false },
      http: {
        deadline: 10_000,
        attemptTimeout: 4_000,
        attempts: 3,
        maxResponseBytes: 2_097_152,
        maxConcurrent: 64,
      },
    });
    expect(tenants).toEqual(new Map([['default', { ...tenant(), scope: 'idp_api' }]]));
  });

  it('have the documented login defaults', () => {
    const { tenants } = checkOptions({
      tenants: { acme: { ...tenant(), login: login() } },
      secrets: SECRETS,
    });
    expect('get' in tenants && tenants.get('acme')?.login).toMatchObject({
      algorithms: ['RS256', 'PS256', 'ES256'],
      clockTolerance: 30,
      emailClaim: 'email',
      scope: 'openid profile',
      responseType: 'code',
      clientAuth: 'post',
      requireVerifiedEmail: false,
    });
  });

  it('report every wrong shape at once, by its path', () => {
    const wrong = {
      tenants: {
        acme: {
          ...tenant(),
          baseUrl: 'http://api.example',
          http: { deadline: 0, attempts: 1.5 },
          login: { ...login(), redirectUri: undefined, algorithms: ['none'] },
        },
        globex: { ...tenant(), tenantId: 'a\r\nb', clientSecret: '', baseURL: 'https://typo.example' },
      },
      secrets: ['too short'],
      http: { maxConcurrent: 'many' },
    };
    expect(problems(wrong)).toEqual(
      expect.arrayContaining([
        'secrets.0: must have at least 32 characters',
        'http.maxConcurrent: must be a whole number of requests from 1 to 10000',
        'tenants.acme.baseUrl: must be https (http only for localhost, *.localhost, 127.0.0.0/8 and [::1])',
        'tenants.acme.http.deadline: must be a whole number of milliseconds from 1 to 2147483647',
        'tenants.acme.http.attempts: must be a whole number of requests from 1 to 10',
        expect.stringContaining('tenants.acme.login.algorithms.0: must be one of'),
        'tenants.globex.tenantId: must be printable ASCII without surrounding spaces',
        'tenants.globex.clientSecret: must not be empty',
        'tenants.globex.baseURL: is not an option',
      ]),
    );
    expect(problems(wrong)).toHaveLength(9);
  });

  it('ask for the file of the environment where no value is set', () => {
    const unset = { ...tenant(), tenantId: undefined, baseUrl: '', clientId: '', clientSecret: undefined };
    const messageOf = (input: unknown): string => {
      try {
        return String(checkOptions(input));
      } catch (error) {
        return String(error);
      }
    };
    const hint = 'no variable of these is set: is the file loaded? Node reads it by node --env-file=FILE';
    expect(
      messageOf({ tenant: unset, secrets: [undefined] })
        .split('\n  ')
        .slice(1),
    ).toEqual([
      'secrets.0: is required',
      'tenant.tenantId: is required',
      'tenant.baseUrl: must be an absolute URL',
      'tenant.clientId: must not be empty',
      hint,
    ]);
    expect(messageOf({ tenant: { ...unset, authUrl: 'x' } })).not.toContain(hint);
    expect(messageOf({ tenant: { ...tenant(), clientId: '', tenantId: '' } })).not.toContain(hint);
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

  it.each([
    ['nothing', undefined, ': must be an object of options'],
    ['no tenant', {}, 'tenants: exactly one of tenant and tenants must be given'],
    [
      'both',
      { tenant: tenant(), tenants: { acme: tenant() } },
      'tenants: exactly one of tenant and tenants must be given',
    ],
    [
      'no tenants',
      { tenants: {} },
      'tenants: must be an object of one or more tenants by key, or have a find method',
    ],
    ['a missing field', { tenant: { ...tenant(), clientId: undefined } }, 'tenant.clientId: is required'],
    [
      'a login without secrets',
      { tenant: { ...tenant(), login: login() } },
      'secrets: is required with a login: one or more strings of at least 32 characters',
    ],
    ['a store without secrets', { tenant: tenant(), store: new Map() }, 'secrets: is required with store'],
    [
      'credentials in an address',
      { tenant: { ...tenant(), baseUrl: 'https://me:pw@api.example' } },
      'tenant.baseUrl: must not contain credentials',
    ],
    [
      'a query in an address',
      { tenant: { ...tenant(), authUrl: 'https://login.example?x=1' } },
      'tenant.authUrl: must not contain a query',
    ],
    [
      'a relative address',
      { tenant: { ...tenant(), authUrl: '/login' } },
      'tenant.authUrl: must be an absolute URL',
    ],
    ['an empty address', { tenant: { ...tenant(), baseUrl: '' } }, 'tenant.baseUrl: must be an absolute URL'],
    [
      'an endpoint by http',
      { tenant: { ...tenant(), endpoints: { token: 'http://login.example/token' } } },
      'tenant.endpoints.token: must be https (http only for localhost, *.localhost, 127.0.0.0/8 and [::1])',
    ],
    [
      'a relative endpoint',
      { tenant: { ...tenant(), endpoints: { endSession: '/logout' } } },
      'tenant.endpoints.endSession: must be an absolute URL',
    ],
    [
      'an unknown endpoint',
      { tenant: { ...tenant(), endpoints: { revoke: 'https://login.example/revoke' } } },
      'tenant.endpoints.revoke: is not an option',
    ],
    [
      'a login without keys and discovery',
      { tenant: { ...tenant(), login: { ...login(), keys: undefined } }, secrets: SECRETS },
      'tenant.login.keys: is required',
    ],
    ...['acme', 'http://login.example', 'https://login.example?x=1', 'https://login.example#x'].map(
      (issuer): [string, object, string] => [
        `discovery at ${issuer}`,
        { tenant: { ...tenant(), login: { ...login(), issuer, discovery: true } }, secrets: SECRETS },
        'tenant.login.issuer: must be an https URL without a query (http only for loopback hosts) with discovery',
      ],
    ),
    [
      'discovery at an issuer that is not allowed',
      {
        tenant: { ...tenant(), login: { ...login(), issuer: 'https://id.example', discovery: true } },
        secrets: SECRETS,
        allowedOrigins: ['https://api.example', 'https://login.example'],
      },
      'tenant.login.issuer: must be on one of allowedOrigins',
    ],
    [
      'an identity that outlasts its login',
      { tenant: tenant(), cookies: { absoluteTtl: 28_799_999 } },
      'cookies.absoluteTtl: must be at least identityTtl',
    ],
    [
      'a lifetime without an end',
      { tenant: tenant(), cookies: { absoluteTtl: Infinity } },
      'cookies.absoluteTtl: must be a whole number of milliseconds from 1 to 2147483647',
    ],
    [
      'a secret that is no text',
      { tenant: { ...tenant(), clientSecret: 7 } },
      'tenant.clientSecret: must be a non-empty string or a function',
    ],
    [
      'an API client without a secret',
      { tenant: { ...tenant(), clientSecret: undefined } },
      'tenant.clientSecret: is required',
    ],
    [
      'an unknown client authentication',
      { tenant: { ...tenant(), clientAuth: 'tls' } },
      "tenant.clientAuth: must be 'post', 'basic' or { privateKey, kid, alg, audience }",
    ],
    ...[PEM, 'not a key', 7, undefined, {}, { ...publicKey.export({ format: 'jwk' }) }].map(
      (key): [string, object, string] => [
        `no private key: ${JSON.stringify(key)?.slice(0, 20)}`,
        { tenant: { ...tenant(), clientAuth: { privateKey: key } } },
        'tenant.clientAuth.privateKey: must be a private key as PEM, JWK or KeyObject, not encrypted',
      ],
    ),
    [
      'a short private key',
      { tenant: { ...tenant(), clientAuth: { privateKey: shortKey() } } },
      'tenant.clientAuth.privateKey: must have at least 2048 bits',
    ],
    ...[giantKey('n'), giantKey('e'), giantKey('p'), giantPem('e', 'pkcs8')].map(
      (key, at): [string, object, string] => [
        `a giant private key (${at})`,
        { tenant: { ...tenant(), clientAuth: { privateKey: key } } },
        'tenant.clientAuth.privateKey: must have at most 16384 characters',
      ],
    ),
    [
      'a private key of another kind',
      { tenant: { ...tenant(), clientAuth: { privateKey: generateKeyPairSync('x25519').privateKey } } },
      'tenant.clientAuth.privateKey: must be an RSA key, an EC key (P-256, P-384 or P-521) or an Ed25519 key',
    ],
    [
      'an alg that does not fit the private key',
      { tenant: { ...tenant(), clientAuth: { privateKey, alg: 'ES256' } } },
      'tenant.clientAuth: must have an alg that fits its key: RS256, RS384, RS512, PS256, PS384, PS512',
    ],
    ...['', 'k'.repeat(129), 'é'.repeat(65)].map((key): [string, object, string] => [
      `a tenant with a key of ${Buffer.byteLength(key)} bytes`,
      { tenants: { [key]: tenant() } },
      `tenants.${key}: must have a key of 1 to 128 bytes`,
    ]),
    [
      'a secret of few characters',
      { tenant: tenant(), secrets: ['abcdefghijk'.repeat(3)] },
      'secrets.0: must have at least 12 different characters',
    ],
    [
      'two keepers of the identity',
      { tenant: tenant(), session: ['cookie', 'host'] },
      "session: must not name both 'cookie' and 'host': one of them keeps the identity",
    ],
    [
      'an origin with a path',
      { tenant: tenant(), allowedOrigins: ['https://api.example/v1'] },
      'allowedOrigins.0: must be an origin, https://host[:port]',
    ],
    [
      'a trusted origin with a path',
      { tenant: tenant(), trustedOrigins: ['https://app.example/page'] },
      'trustedOrigins.0: must be an origin, https://host[:port]',
    ],
    [
      'trusted origins as a text',
      { tenant: tenant(), trustedOrigins: '*' },
      'trustedOrigins: must be a list of origins',
    ],
  ])('refuse %s', (_, options, problem) => {
    expect(problems(options)).toContain(problem);
  });

  it('accept a private key instead of a secret, as PEM, JWK or KeyObject', () => {
    const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
    const jwk = { ...privateKey.export({ format: 'jwk' }), kid: 'of the JWK', alg: 'PS256' };
    const escaped = ['\\n', '\\r\\n'].map((lineBreak) => pem.replaceAll('\n', lineBreak));
    const given = [pem, ...escaped, jwk, JSON.stringify(jwk), privateKey];
    const parsed = given.map((key) => {
      const clientAuth = { privateKey: key };
      const { tenants } = checkOptions({ tenant: { ...tenant(), clientSecret: undefined, clientAuth } });
      return 'get' in tenants ? tenants.get('default')?.clientAuth : undefined;
    });
    const rs256 = { privateKey: expect.anything(), alg: 'RS256' };
    const ps256 = { privateKey: expect.anything(), alg: 'PS256', kid: 'of the JWK' };
    expect(parsed).toEqual([rs256, rs256, rs256, ps256, ps256, rs256]);
  });

  it('accept a base path and drop the trailing slash', () => {
    const { tenants } = checkOptions({ tenant: { ...tenant(), baseUrl: 'https://api.example/exhibitors/' } });
    expect('get' in tenants && tenants.get('default')?.baseUrl).toBe('https://api.example/exhibitors');
  });

  it('accept plain http for loopback hosts only', () => {
    for (const host of [
      'localhost:8080',
      'acme.localhost:8080',
      '127.0.0.1:8080',
      '127.8.0.1',
      '[::1]:8080',
    ]) {
      expect(problems({ tenant: { ...tenant(), baseUrl: `http://${host}` } })).toEqual([]);
    }
    for (const host of ['localhost.example', 'mylocalhost', '127.example', '128.0.0.1', '[::2]']) {
      expect(problems({ tenant: { ...tenant(), baseUrl: `http://${host}` } })).toHaveLength(1);
    }
  });

  it('check every URL against allowedOrigins', () => {
    const keys = 'https://keys.example/jwks';
    const endpoints = { token: 'https://tokens.example/token', userinfo: 'https://api.example/me' };
    const options = { tenant: { ...tenant(), endpoints, login: { ...login(), keys } }, secrets: SECRETS };
    const allowedOrigins = ['https://api.example'];
    expect(problems({ ...options, allowedOrigins })).toEqual([
      'tenant.authUrl: must be on one of allowedOrigins',
      'tenant.endpoints.token: must be on one of allowedOrigins',
      'tenant.login.keys: must be on one of allowedOrigins',
    ]);
    allowedOrigins.push('https://login.example', 'https://keys.example/', 'https://tokens.example');
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
    // A promise is no answer.
    const later = () => Promise.resolve(true) as unknown as boolean;
    expect(problems({ tenant: tenant(), allowedOrigins: later })).toHaveLength(2);
  });

  it.each(SPELLINGS)('are refused or sent to an allowed origin, however it is spelled: %j', (url) => {
    const allowedOrigins = ['https://api.example', 'http://[::1]', 'https://xn--bcher-kva.example'];
    const withUrl: Record<string, unknown>[] = [
      { baseUrl: url },
      { endpoints: { token: url } },
      { login: { ...login(), keys: url } },
    ];
    for (const changed of withUrl) {
      const options = { ...tenant(), login: login(), authUrl: 'https://api.example', ...changed };
      const settings = acceptedTenant(options, {
        ...checkOptions({ tenant: tenant() }).settings,
        secrets: SECRETS,
        allowedOrigins: (one) => allowedOrigins.includes(one),
      });
      const keys = settings?.login?.keys;
      const sent = [
        settings?.baseUrl,
        settings?.endpoints?.token,
        keys?.kind === 'url' ? keys.url : undefined,
      ];
      for (const one of sent.filter((value) => value !== undefined)) {
        expect(allowedOrigins).toContain(new URL(splitUrl(one).origin).origin);
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
  const withLogin = (changes: object) => ({
    tenant: { ...tenant(), login: { ...login(), ...changes } },
    secrets: SECRETS,
  });

  it.each<[path: string, options: object, expected: string]>([
    [
      'lookupCache.ttl',
      { tenant: tenant(), lookupCache: { ttl: 'soon' } },
      'must be a whole number of milliseconds from 1 to 2147483647',
    ],
    ['lookupCache.size', { tenant: tenant(), lookupCache: { size: 7 } }, 'is not an option'],
    [
      'logoutCheck.ttl',
      { tenant: tenant(), logoutCheck: { ttl: -1 } },
      'must be a whole number of milliseconds from 0 to 2147483647',
    ],
    ['logoutCheck', { tenant: tenant(), logoutCheck: false }, 'must be { ttl, provider }'],
    [
      'lookupCache',
      { tenant: tenant(), lookupCache: true },
      'must be { ttl, max, maxBytes, staleIfError } or false',
    ],
    [
      'session.1',
      { tenant: tenant(), session: ['host', 'jwt'] },
      "must be one of 'cookie', 'host', 'bearer'",
    ],
    ['session', { tenant: tenant(), session: 'jwt' }, "must be 'cookie', 'host', 'bearer' or a list of them"],
    ['session', { tenant: tenant(), session: [] }, 'must not be empty'],
    ['tenant.login.audience.accessToken', withLogin({ audience: { accessToken: 7 } }), 'must be a string'],
    ['tenant.login.audience.access', withLogin({ audience: { access: 'api' } }), 'is not an option'],
    ['tenant.login.audience', withLogin({ audience: 7 }), 'must be a string, or { idToken, accessToken }'],
  ])('is named as %s where it is wrong', (path, options, expected) => {
    expect(problems(options)).toEqual([`${path}: ${expected}`]);
  });

  it('is accepted in each of its forms', () => {
    for (const lookupCache of [false, {}, { ttl: 1 }]) {
      expect(problems({ tenant: tenant(), lookupCache })).toEqual([]);
    }
    for (const session of ['host', ['cookie'], ['bearer', 'cookie']]) {
      expect(problems({ tenant: tenant(), session })).toEqual([]);
    }
    for (const audience of ['web', {}, { idToken: 'web', accessToken: 'api' }]) {
      expect(problems(withLogin({ audience }))).toEqual([]);
    }
  });
});

describe('keys', () => {
  const withKeys = (keys: unknown) =>
    problems({ tenant: { ...tenant(), login: { ...login(), keys } }, secrets: SECRETS });
  const jwk = publicKey.export({ format: 'jwk' });

  it.each([
    ['PEM (SPKI)', PEM],
    ['PEM (PKCS#1)', publicKey.export({ type: 'pkcs1', format: 'pem' })],
    ['a JWK', jwk],
    ['the JSON of a JWK', JSON.stringify(jwk)],
    ['a JWKS', { keys: [jwk] }],
    ['the JSON of a JWKS', JSON.stringify({ keys: [jwk] })],
    ['the URL of a JWKS', 'https://login.example/jwks?version=2'],
  ])('may be %s', (_, keys) => {
    expect(withKeys(keys)).toEqual([]);
  });

  it.each([
    [
      'a private PEM',
      privateKey.export({ type: 'pkcs8', format: 'pem' }),
      'must be a public key, not a private one',
    ],
    ['a private JWK', privateKey.export({ format: 'jwk' }), 'must hold public keys only'],
    ['a symmetric JWK', { kty: 'oct', k: 'c2VjcmV0' }, 'must hold public keys only'],
    [
      'a broken PEM',
      '-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----',
      'must be a readable PEM (SPKI, PKCS#1 or certificate), with its line breaks, which may be written as \\n',
    ],
    ['a giant PEM', giantPem('e', 'spki'), 'must have at most 16384 characters'],
    ['broken JSON', '{"keys":', 'must be valid JSON of a JWK or JWKS'],
    [
      'an insecure URL',
      'http://login.example/jwks',
      'must be https (http only for localhost, *.localhost, 127.0.0.0/8 and [::1])',
    ],
    ['a JWKS of 101 keys', { keys: Array.from({ length: 101 }, () => jwk) }, 'must hold at most 100 keys'],
    ['an empty JWKS', { keys: [] }, 'must be the public key as PEM, JWK or JWKS, or the URL of a JWKS'],
    ['anything else', 'secret', 'must be the public key as PEM, JWK or JWKS, or the URL of a JWKS'],
  ])('are refused as %s', (_, keys, expected) => {
    expect(withKeys(keys)).toEqual([`tenant.login.keys: ${expected}`]);
  });
});

describe("session: 'bearer'", () => {
  const bearer = {
    issuer: 'https://login.example',
    keys: PEM,
    audience: { accessToken: 'api' },
    authorizedParties: ['spa'],
  };

  it('requires audience and authorizedParties, and neither secrets nor a redirectUri', () => {
    expect(problems({ tenant: { ...tenant(), login: bearer }, session: 'bearer' })).toEqual([]);
    const { audience: _a, authorizedParties: _p, ...less } = bearer;
    expect(problems({ tenant: { ...tenant(), login: less }, session: 'bearer' })).toEqual([
      "tenant.login.audience.accessToken: is required with session 'bearer'",
      "tenant.login.authorizedParties: is required with session 'bearer'",
    ]);
  });

  it('requires both beside a browser login', () => {
    expect(problems({ tenant: { ...tenant(), login: bearer }, session: ['cookie', 'bearer'] })).toEqual([
      'secrets: is required with a login: one or more strings of at least 32 characters',
      'tenant.login.clientId: is required',
      'tenant.login.redirectUri: is required',
    ]);
  });
});
