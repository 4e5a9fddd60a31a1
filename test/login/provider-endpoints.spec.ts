import { createPublicKey } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { jwtVerify } from 'jose';
import { TokenService, type TenantOptions } from '../../lib/index.js';
import { clockOf, type MovedClock } from '../support/clock.js';
import type { Host } from '../support/host.js';
import { OperatorLines } from '../support/operator-lines.js';
import { KEYS as SIGNING_KEYS, signingKey, type SigningKey } from '../support/provider-keys.js';
import { answers, changes, says, sends, type ReplyChange, type Script } from '../support/provider-script.js';
import { CLIENT_ID, type LoginOverrides, type ScriptedProvider } from '../support/provider.js';
import { Visitor, type Reply } from '../support/visitor.js';
import { withProvider } from './hosts.js';
import {
  arrive,
  expectAccepted,
  expectError,
  expectLoginRefused,
  expectRefusal,
  logIn,
  toHost,
} from './journey.js';

const OTHER_PATHS = {
  '/oauth2/authorize': '/connect/authorize',
  '/oauth2/token': '/connect/token',
  '/oauth2/me': '/connect/userinfo',
};
const [AUTHORIZE, TOKEN, USERINFO] = ['/oauth2/authorize', '/oauth2/token', '/oauth2/me'];
const KEYS = '/oauth2/jwks';
const METADATA = '/.well-known/openid-configuration';
const MINUTE = 60_000;

let provider: ScriptedProvider;
const start = withProvider((started) => (provider = started));
beforeAll(() => {
  provider.otherPaths = { ...OTHER_PATHS, [KEYS]: '/connect/jwks' };
});
beforeEach(() => {
  provider.seen.length = 0;
});

const paths = (): string[] => provider.seen.map(({ path }) => path);

/** This provider has no API client: only where the request arrives is of interest. */
async function expectApiClientAt(host: Host, path: string): Promise<void> {
  await expect(host.app.get(TokenService).getToken()).rejects.toMatchObject({ code: 'token_rejected' });
  expect(paths()).toEqual([path]);
}

it('a provider with other paths gets every request there, with the query of its endpoint', async () => {
  const endpoints = {
    authorize: `${provider.url}/oauth2/authorize?realm=fair%20one&realm=b`,
    token: `${provider.url}/oauth2/token?realm=fair`,
    userinfo: `${provider.url}/oauth2/me`,
  };
  const host = await start({}, (callback) => ({
    tenant: { ...provider.tenantOptions(callback), endpoints },
  }));
  provider.script = { email: 'userinfo' };
  await expectAccepted(host);
  expect(paths()).toEqual([AUTHORIZE, TOKEN, USERINFO]);
  const { query } = provider.last('/oauth2/authorize');
  const usual = ['client_id', 'code_challenge', 'code_challenge_method', 'nonce', 'redirect_uri'];
  const all = [...usual, 'response_type', 'scope', 'state', 'realm', 'realm'];
  expect([...query.keys()].toSorted()).toEqual(all.toSorted());
  expect(query.getAll('realm')).toEqual(['fair one', 'b']);
  expect(provider.last('/oauth2/token').query.toString()).toBe('realm=fair');

  provider.seen.length = 0;
  await expectApiClientAt(host, '/oauth2/token');
  expect(provider.last('/oauth2/token').query.toString()).toBe('realm=fair');
});

/** Options of a tenant that finds everything by discovery. */
const discovering = (callback: string, login: LoginOverrides = {}): TenantOptions =>
  provider.tenantOptions(callback, { keys: undefined, discovery: true, ...login });

describe('discovery', () => {
  let host: Host;
  let clock: MovedClock;
  beforeAll(async () => {
    host = await start({}, (callback) => ({ tenant: discovering(callback) }));
    clock = clockOf(host.app);
  });

  it('reads the metadata at the first login, and finds endpoints and keys there', async () => {
    expect(paths()).toEqual([]);
    provider.script = { email: 'userinfo' };
    await expectAccepted(host);
    expect(paths()).toEqual([METADATA, AUTHORIZE, TOKEN, KEYS, USERINFO]);
    await expectAccepted(host);
    expect([provider.count(METADATA), provider.count(KEYS)]).toEqual([1, 1]);
  });

  it('does not change the token endpoint of the API client', async () => {
    await expectApiClientAt(host, '/connect/token');
  });

  it('reads the metadata again after ten minutes, and follows what changed', async () => {
    clock.skip(11 * MINUTE, ['now']);
    const { url } = provider;
    const moved = { authorization_endpoint: `${url}/connect/authorize`, jwks_uri: `${url}/connect/jwks` };
    provider.script = { metadata: changes(moved) };
    await expectAccepted(host);
    expect(paths()).toEqual([METADATA, '/connect/authorize', TOKEN, '/connect/jwks']);
  });

  it('uses the last good metadata for a day while it cannot be read or names another issuer', async () => {
    const metadata = changes({ issuer: 'https://evil.example' });
    for (const script of [{ metadata: answers({}, 500) }, { metadata }, {}, { metadata }]) {
      clock.skip(11 * MINUTE, ['now']);
      provider.script = script;
      const before = provider.count(METADATA);
      await expectAccepted(host);
      expect(provider.count(METADATA)).toBeGreaterThan(before);
    }
    clock.skip(25 * 60 * MINUTE, ['now']);
    expectRefusal(await new Visitor().visit(`${host.url}/auth/login`), 'issuer');
    clock.skip(MINUTE, ['now']);
    provider.script = {};
    await expectAccepted(host);
  });

  it('adds no algorithm and no client authentication', async () => {
    clock.skip(11 * MINUTE, ['now']);
    const key = signingKey('ES384');
    provider.script = {
      metadata: changes({
        id_token_signing_alg_values_supported: ['ES384', 'HS256', 'none'],
        token_endpoint_auth_methods_supported: ['client_secret_basic', 'none'],
      }),
      keys: answers({ keys: [key.jwk, ...provider.jwks.keys] }),
      backToken: { key },
    };
    await expectLoginRefused(host, 'algorithm');
    const { form, headers } = provider.last('/oauth2/token');
    expect([form.has('client_secret'), headers.authorization]).toEqual([true, undefined]);
    // Such a token makes nobody fetch keys.
    expect(provider.count(KEYS)).toBe(0);
  });

  it('requires `iss` where the provider says that it sends it', async () => {
    const authorization = (response: URLSearchParams): void => response.delete('iss');
    const metadata = changes({ authorization_response_iss_parameter_supported: true });
    for (const script of [{ authorization }, { metadata }]) {
      clock.skip(11 * MINUTE, ['now']);
      provider.script = script;
      await expectAccepted(host);
    }
    provider.script = { metadata, authorization };
    await expectLoginRefused(host, 'issuer');
  });

  it.each(['/münchen', '/東京/', '/a b%C3%BC'])(
    'requests the metadata of an issuer with other characters than those of a URL: %s',
    async (path) => {
      const issuer = provider.url + path;
      const other = await start({}, (callback) => ({ tenant: discovering(callback, { issuer }) }));
      provider.script = { metadata: changes({ issuer }) };
      const { status } = await new Visitor().visit(`${other.url}/auth/login`);
      const { pathname } = new URL(issuer.replace(/\/$/, ''));
      expect([status, paths()]).toEqual([302, [pathname + METADATA]]);
    },
  );
});

it('private_key_jwt authenticates a login by discovery and the API client, each with its audience', async () => {
  const { es256, next } = SIGNING_KEYS;
  const privateKey = es256.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const host = await start({}, (callback) => ({
    tenant: {
      ...discovering(callback, { clientSecret: undefined, clientAuth: { privateKey } }),
      clientSecret: undefined,
      clientAuth: { privateKey: next.privateKey, kid: next.kid },
    },
  }));
  /** The verified assertion of the last token request. */
  const assertionAt = (path: string, { publicKey }: SigningKey) => {
    const { form, headers } = provider.last(path);
    expect([headers.authorization, form.has('client_secret')]).toEqual([undefined, false]);
    expect(form.get('client_assertion_type')).toBe('urn:ietf:params:oauth:client-assertion-type:jwt-bearer');
    const key = createPublicKey(publicKey.export({ type: 'spki', format: 'pem' }));
    return jwtVerify(form.get('client_assertion') ?? '', key);
  };
  const [jti, iat] = [expect.any(String), expect.any(Number)];

  await expectAccepted(host);
  const ofLogin = await assertionAt('/oauth2/token', es256);
  expect(ofLogin.protectedHeader).toEqual({ alg: 'ES256', typ: 'client-authentication+jwt' });
  const login = { iss: CLIENT_ID, sub: CLIENT_ID, aud: provider.url };
  expect(ofLogin.payload).toEqual({ ...login, jti, iat, exp: Number(ofLogin.payload.iat) + 60 });

  provider.seen.length = 0;
  await expectApiClientAt(host, '/connect/token');
  const ofApi = await assertionAt('/connect/token', next);
  expect(ofApi.protectedHeader).toEqual({ alg: 'RS256', typ: 'JWT', kid: next.kid });
  const api = { iss: 'hostile-api', sub: 'hostile-api', aud: `${provider.url}/connect/token` };
  expect(ofApi.payload).toEqual({ ...api, jti, iat, exp: Number(ofApi.payload.iat) + 60 });
});

const authorizeAt = (address: unknown): ReplyChange => changes({ authorization_endpoint: address });

/** Metadata that must not be used, and the refusal of a login at its start. */
const UNUSABLE: readonly [what: string, metadata: ReplyChange, reason: string][] = [
  ['another issuer', changes({ issuer: 'https://evil.example' }), 'issuer'],
  [
    'an issuer with one more slash',
    (reply) => void (reply.body = reply.body.replace('"issuer":"', '$&/')),
    'issuer',
  ],
  ['no issuer', changes({ issuer: undefined }), 'issuer'],
  ['a list of issuers', changes({ issuer: ['https://evil.example'] }), 'issuer'],
  ['no authorization endpoint', authorizeAt(undefined), 'provider'],
  ['an authorization endpoint by http', authorizeAt('http://login.example/a'), 'provider'],
  ['an endpoint that is no URL', authorizeAt('/authorize'), 'provider'],
  ['an endpoint that is a number', authorizeAt(7), 'provider'],
  ['an endpoint of another origin', authorizeAt('https://evil.example/a'), 'provider'],
  ['a list', answers([]), 'provider'],
  ['404', answers({}, 404), 'provider'],
  ['too much', (reply) => void (reply.body += ' '.repeat(300_000)), 'provider'],
];

describe('metadata that cannot be used', () => {
  const lines = new OperatorLines();
  let host: Host;
  beforeAll(async () => {
    // One tenant and one issuer for each case, so that none has metadata of another.
    host = await start({}, (callback) => ({
      tenants: {
        find: (key) => {
          const [issuer] = key.split('.');
          const set = key.endsWith('.set') ? { endpoints: { token: `${provider.url}/connect/token` } } : {};
          return { ...discovering(callback, { issuer: `${provider.url}/${issuer}` }), ...set };
        },
      },
      allowedOrigins: [provider.url],
    }));
    Logger.overrideLogger(lines);
  });
  afterAll(() => Logger.overrideLogger(['fatal']));

  const begin = (tenant: string): Promise<Reply> =>
    new Visitor().visit(`${host.url}/auth/login?tenant=${tenant}`);

  it.each(UNUSABLE.map((row, index) => [...row, `case-${index}`] as const))(
    '%s',
    async (_what, metadata, reason, tenant) => {
      provider.script = { metadata };
      lines.clear();
      const refused = await begin(tenant);
      expectRefusal(refused, reason);
      expect(refused.setCookies).toEqual([]);
      expect(lines.errors.join()).toMatch(/^(|tenants\.case-.*\.login\.(issuer|discovery)[:,].*)$/);
      clockOf(host.app).skip(11 * MINUTE, ['now']);
      provider.script = {};
      expect((await begin(tenant)).location).toContain(`${provider.url}/oauth2/authorize?`);
    },
  );

  it('is 503 where the provider is down', async () => {
    provider.script = { metadata: answers({}, 503) };
    expectError(await begin('down'), 503, 'service_unavailable');
  });

  it.each([
    ['no token endpoint', { token_endpoint: undefined }],
    ['a token endpoint of another origin', { token_endpoint: 'https://evil.example/token' }],
    ['no keys', { jwks_uri: undefined }],
    ['keys of another origin', { jwks_uri: 'https://evil.example/jwks' }],
  ])('with %s refuses the callback, and nothing is sent there', async (what, members) => {
    const issuer = what.replaceAll(' ', '-');
    const iss = `${provider.url}/${issuer}`;
    const authorization = (response: URLSearchParams): void => response.set('iss', iss);
    provider.script = { metadata: changes(members), authorization, ...says({ iss }) };
    await expectLoginRefused(host, 'provider', `?tenant=${issuer}`);
    expect(provider.count(KEYS)).toBe(0);
    // An endpoint of the options is not looked up: only the keys are still missing.
    const before = provider.count('/connect/token');
    const reply = await logIn(new Visitor(), host, `?tenant=${issuer}.set`);
    expect(reply.status).toBe(Object.hasOwn(members, 'token_endpoint') ? 303 : 401);
    expect(provider.count('/connect/token') - before).toBe(1);
  });
});

it('a signed userinfo reply is refused, and the operator reads how to mend it', async () => {
  const host = await start();
  const lines = new OperatorLines();
  host.app.useLogger(lines);
  const signed = sends({ headers: { 'content-type': 'application/jwt' }, body: 'e30.e30.e30' });
  provider.script = { email: 'userinfo', userinfo: signed };
  await expectLoginRefused(host, 'provider');
  expect(provider.last('/connect/userinfo').headers.accept).toBe('application/json');
  expect(lines.all).toContainEqual(expect.stringContaining('remove userinfo_signed_response_alg'));
});

describe('the secret of a login as a function', () => {
  let host: Host;
  /** What the function of the host answers, in turns; the last one again and again. */
  let secrets: unknown[] = [];
  let reads = 0;
  beforeAll(async () => {
    const clientSecret = async (): Promise<string> => {
      const next = secrets[Math.min(reads, secrets.length - 1)];
      reads += 1;
      if (next instanceof Error) {
        throw next;
      }
      return next as string;
    };
    host = await start({ login: { clientSecret } });
  });
  beforeEach(() => {
    reads = 0;
  });

  const sealed = new Error('the vault is sealed');
  const onlyNew: Script = { clientSecret: 'new' };
  const refuses = (error: string, status = 400): Script => ({ token: answers({ error }, status) });
  type Sent = [
    what: string,
    secrets: unknown[],
    script: Script,
    status: number,
    sent: string[],
    reads: number,
  ];

  it.each<Sent>([
    ['that fits is read once', ['new', 'old'], onlyNew, 303, ['new'], 1],
    ['is read and sent once more after invalid_client', ['old', 'new'], onlyNew, 303, ['old', 'new'], 2],
    // What Keycloak answers to a wrong secret.
    [
      'is so too after unauthorized_client',
      ['one', 'two'],
      refuses('unauthorized_client'),
      401,
      ['one', 'two'],
      2,
    ],
    ['is not sent again where it is still the same', ['old', 'old'], onlyNew, 401, ['old'], 2],
    [
      'is read twice at most, however often it changes',
      ['one', 'two', 'three'],
      onlyNew,
      401,
      ['one', 'two'],
      2,
    ],
    ['is not read again after invalid_grant', ['one', 'two'], refuses('invalid_grant'), 401, ['one'], 1],
    [
      'is not read again after a 401 without an OAuth error',
      ['one', 'two'],
      refuses('', 401),
      401,
      ['one'],
      1,
    ],
    ['is not read again after a 5xx', ['one', 'two'], refuses('invalid_client', 503), 503, ['one'], 1],
    ['that throws is 500, and no code is sent', [sealed], {}, 500, [], 1],
    ['that is nothing is 503, and no code is sent', [undefined], {}, 503, [], 1],
  ])('%s', async (_what, given, script, status, sent, expectedReads) => {
    secrets = given;
    const { visitor, arrival } = await arrive(host);
    provider.script = script;
    expect((await toHost(visitor, arrival)).status).toBe(status);
    const requests = provider.seen.filter(({ path }) => path === '/connect/token');
    expect(requests.map(({ form }) => form.get('client_secret'))).toEqual(sent);
    expect(reads).toBe(expectedReads);
  });
});
