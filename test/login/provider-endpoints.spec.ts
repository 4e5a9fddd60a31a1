import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { TokenService, type TenantOptions } from '../../lib/index.js';
import { clockOf, type MovedClock } from '../support/clock.js';
import type { Host } from '../support/host.js';
import { OperatorLines } from '../support/operator-lines.js';
import { signingKey } from '../support/provider-keys.js';
import { answers, changes, sends, type ReplyChange, type Script } from '../support/provider-script.js';
import type { LoginOverrides, ScriptedProvider } from '../support/provider.js';
import { Visitor } from '../support/visitor.js';
import { withProvider } from './hosts.js';
import { expectAccepted, expectRefusal, logIn, toHost, toProvider } from './journey.js';

const OTHER_PATHS = {
  '/oauth2/authorize': '/connect/authorize',
  '/oauth2/token': '/connect/token',
  '/oauth2/me': '/connect/userinfo',
};
const METADATA = '/.well-known/openid-configuration';
const MINUTE = 60_000;

let provider: ScriptedProvider;
const start = withProvider((started) => (provider = started));
beforeAll(() => {
  provider.otherPaths = { ...OTHER_PATHS, '/oauth2/jwks': '/connect/jwks' };
});
beforeEach(() => {
  provider.seen.length = 0;
});
describe('a provider with other paths', () => {
  let host: Host;
  beforeAll(async () => {
    const endpoints = {
      authorize: `${provider.url}/oauth2/authorize?realm=fair%20one&realm=b`,
      token: `${provider.url}/oauth2/token?realm=fair`,
      userinfo: `${provider.url}/oauth2/me`,
    };
    host = await start({}, (callback) => ({ tenant: { ...provider.tenantOptions(callback), endpoints } }));
  });

  it('gets every request of a login there, with the query of its endpoint', async () => {
    provider.script = { email: 'userinfo' };
    await expectAccepted(host);
    expect(provider.seen.map(({ path }) => path)).toEqual(Object.keys(OTHER_PATHS));
    const { query } = provider.last('/oauth2/authorize');
    expect(query.getAll('realm')).toEqual(['fair one', 'b']);
    expect(query.get('client_id')).toBe('hostile-web');
    expect(provider.last('/oauth2/token').query.toString()).toBe('realm=fair');
  });

  it('gets the requests of the API client at the same token endpoint', async () => {
    // This provider has no API client: only where the request arrives is of interest.
    await expect(host.app.get(TokenService).getToken()).rejects.toMatchObject({ code: 'token_rejected' });
    expect(provider.seen.map(({ path }) => path)).toEqual(['/oauth2/token']);
    expect(provider.last('/oauth2/token').query.toString()).toBe('realm=fair');
  });

  it('shows the browser no other parameter of the login than before', async () => {
    const { location } = await new Visitor().visit(`${host.url}/auth/login`);
    const names = [...new URL(location ?? '').searchParams.keys()].filter((name) => name !== 'realm');
    expect(names.toSorted()).toEqual([
      'client_id',
      'code_challenge',
      'code_challenge_method',
      'nonce',
      'redirect_uri',
      'response_type',
      'scope',
      'state',
    ]);
  });
});

/** Options of a tenant that finds everything by discovery. */
function discovering(callback: string, login: LoginOverrides = {}): TenantOptions {
  return provider.tenantOptions(callback, { keys: undefined, discovery: true, ...login });
}

const paths = (): string[] => provider.seen.map(({ path }) => path);

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
    const [authorize, token, me] = Object.keys(OTHER_PATHS);
    expect(paths()).toEqual([METADATA, authorize, token, '/oauth2/jwks', me]);
    await expectAccepted(host);
    expect(provider.count(METADATA)).toBe(1);
    expect(provider.count('/oauth2/jwks')).toBe(1);
  });

  it('does not change the token endpoint of the API client', async () => {
    await expect(host.app.get(TokenService).getToken()).rejects.toMatchObject({ code: 'token_rejected' });
    expect(paths()).toEqual(['/connect/token']);
  });

  it('reads the metadata again after ten minutes, and follows what changed', async () => {
    clock.skip(11 * MINUTE, ['now']);
    provider.script = {
      metadata: changes({
        authorization_endpoint: `${provider.url}/connect/authorize`,
        jwks_uri: `${provider.url}/connect/jwks`,
      }),
    };
    await expectAccepted(host);
    expect(paths()).toEqual([METADATA, '/connect/authorize', '/oauth2/token', '/connect/jwks']);
  });

  it.each<[string, ReplyChange]>([
    ['fails', answers({}, 500)],
    ['is gone', answers({}, 404)],
    ['names another issuer', changes({ issuer: 'https://evil.example' })],
  ])('uses the last good metadata for a day while it %s', async (_, metadata) => {
    clock.skip(11 * MINUTE, ['now']);
    provider.script = { metadata };
    await expectAccepted(host);
    expect(provider.count(METADATA)).toBeGreaterThan(0);
    await expectAccepted(host);
    clock.skip(11 * MINUTE, ['now']);
    provider.script = {};
    await expectAccepted(host);
  });

  it('has no metadata after a day without a good one', async () => {
    clock.skip(25 * 60 * MINUTE, ['now']);
    provider.script = { metadata: changes({ issuer: 'https://evil.example' }) };
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
    expectRefusal(await logIn(new Visitor(), host), 'algorithm');
    const { form, headers } = provider.last('/oauth2/token');
    expect(form.get('client_secret')).not.toBeNull();
    expect(headers.authorization).toBeUndefined();
    // Such a token makes nobody fetch keys.
    expect(provider.count('/oauth2/jwks')).toBe(0);
  });

  it('requires `iss` where the provider says that it sends it', async () => {
    clock.skip(11 * MINUTE, ['now']);
    const authorization = (response: URLSearchParams): void => response.delete('iss');
    provider.script = { authorization };
    await expectAccepted(host);
    clock.skip(11 * MINUTE, ['now']);
    const metadata = changes({ authorization_response_iss_parameter_supported: true });
    provider.script = { metadata };
    await expectAccepted(host);
    provider.script = { metadata, authorization };
    expectRefusal(await logIn(new Visitor(), host), 'issuer');
  });
});

const DOWN: ReplyChange = answers({}, 503);

/** Metadata that must not be used, and the refusal of a login at its start. */
const UNUSABLE: readonly [what: string, metadata: ReplyChange, reason: string][] = [
  ['another issuer', changes({ issuer: 'https://evil.example' }), 'issuer'],
  [
    'an issuer with one more slash',
    (reply) => void (reply.body = reply.body.replace('"issuer":"', '"issuer":"/')),
    'issuer',
  ],
  ['no issuer', changes({ issuer: undefined }), 'issuer'],
  ['a list of issuers', changes({ issuer: ['https://evil.example'] }), 'issuer'],
  ['no authorization endpoint', changes({ authorization_endpoint: undefined }), 'provider'],
  [
    'an authorization endpoint by http',
    changes({ authorization_endpoint: 'http://login.example/a' }),
    'provider',
  ],
  ['an endpoint that is no URL', changes({ authorization_endpoint: '/authorize' }), 'provider'],
  ['an endpoint that is a script', changes({ authorization_endpoint: 'javascript:alert(1)' }), 'provider'],
  ['an endpoint that is a number', changes({ authorization_endpoint: 7 }), 'provider'],
  [
    'an endpoint with credentials',
    changes({ authorization_endpoint: 'https://a:b@login.example/' }),
    'provider',
  ],
  [
    'an endpoint of another origin',
    changes({ authorization_endpoint: 'https://evil.example/a' }),
    'provider',
  ],
  ['a list', answers([]), 'provider'],
  ['null', answers(null), 'provider'],
  ['a page', sends({ headers: { 'content-type': 'text/html' }, body: '<p>' }), 'provider'],
  ['404', answers({}, 404), 'provider'],
  ['a redirect', sends({ status: 302, headers: { location: 'https://evil.example' }, body: '' }), 'provider'],
  ['too much', (reply) => void (reply.body += ' '.repeat(300_000)), 'provider'],
];

describe('metadata that cannot be used', () => {
  const lines = new OperatorLines();
  let host: Host;
  let callback: string;
  beforeAll(async () => {
    // One tenant and one issuer for each case, so that none has metadata of another.
    const find = (key: string): TenantOptions => {
      const [issuer] = key.split('.');
      const set = key.endsWith('.set') ? { endpoints: { token: `${provider.url}/connect/token` } } : {};
      return { ...discovering(callback, { issuer: `${provider.url}/${issuer}` }), ...set };
    };
    host = await start({}, (given) => {
      callback = given;
      return {
        tenants: { find },
        resolveTenant: ({ query }) => String((query as { tenant?: string }).tenant),
        allowedOrigins: [provider.url],
      };
    });
    Logger.overrideLogger(lines);
  });
  afterAll(() => Logger.overrideLogger(['fatal']));

  it.each(UNUSABLE.map((row, index) => [...row, `case-${index}`] as const))(
    '%s',
    async (_what, metadata, reason, tenant) => {
      const login = (): ReturnType<Visitor['visit']> =>
        new Visitor().visit(`${host.url}/auth/login?tenant=${tenant}`);
      provider.script = { metadata };
      lines.clear();
      const refused = await login();
      expectRefusal(refused, reason);
      expect(refused.setCookies).toEqual([]);
      expect(lines.errors.join()).toMatch(/^(|tenants\.case-.*\.login\.(issuer|discovery)[:,].*)$/);
      clockOf(host.app).skip(11 * MINUTE, ['now']);
      provider.script = {};
      expect((await login()).location).toContain(`${provider.url}/oauth2/authorize?`);
    },
  );

  it('is 503 where the provider is down', async () => {
    provider.script = { metadata: DOWN };
    const reply = await new Visitor().visit(`${host.url}/auth/login?tenant=down`);
    expect([reply.status, JSON.parse(reply.text)]).toEqual([
      503,
      expect.objectContaining({ code: 'service_unavailable' }),
    ]);
  });

  it.each([
    ['no token endpoint', { token_endpoint: undefined }],
    ['a token endpoint of another origin', { token_endpoint: 'https://evil.example/token' }],
    ['a token endpoint by http', { token_endpoint: 'http://login.example/token' }],
    ['no keys', { jwks_uri: undefined }],
    ['keys of another origin', { jwks_uri: 'https://evil.example/jwks' }],
  ])('with %s refuses the callback, and nothing is sent there', async (what, members) => {
    const issuer = what.replaceAll(' ', '-');
    const iss = `${provider.url}/${issuer}`;
    provider.script = {
      metadata: changes(members),
      authorization: (response) => response.set('iss', iss),
      backToken: { claims: (claims) => Object.assign(claims, { iss }) },
    };
    expectRefusal(await logIn(new Visitor(), host, `?tenant=${issuer}`), 'provider');
    expect(provider.count('/oauth2/jwks')).toBe(0);
    // An endpoint of the options is not looked up: only the keys are still missing.
    const before = provider.count('/connect/token');
    const isTokenEndpoint = Object.hasOwn(members, 'token_endpoint');
    const reply = await logIn(new Visitor(), host, `?tenant=${issuer}.set`);
    expect(reply.status).toBe(isTokenEndpoint ? 303 : 401);
    expect(provider.count('/connect/token') - before).toBe(1);
  });
});

it('a signed userinfo reply is refused, and the operator reads how to mend it', async () => {
  const host = await start();
  const lines = new OperatorLines();
  host.app.useLogger(lines);
  provider.script = {
    email: 'userinfo',
    userinfo: (reply) =>
      void Object.assign(reply, { headers: { 'content-type': 'application/jwt' }, body: 'e30.e30.e30' }),
  };
  expectRefusal(await logIn(new Visitor(), host), 'provider');
  expect(provider.last('/connect/userinfo').headers.accept).toBe('application/json');
  expect(lines.all).toContainEqual(expect.stringContaining('remove userinfo_signed_response_alg'));
});

describe('the secret of a login as a function', () => {
  let host: Host;
  /** What the function of the host answers next, and then again and again. */
  let secrets: unknown[] = [];
  let reads = 0;
  beforeAll(async () => {
    const clientSecret = async (): Promise<string> => {
      reads += 1;
      const next = secrets.length > 1 ? secrets.shift() : secrets[0];
      if (next instanceof Error) {
        throw next;
      }
      return next as string;
    };
    host = await start({ login: { clientSecret } });
  });
  afterEach(() => {
    reads = 0;
  });

  /** Number of requests with the code of a login that is answered by this status. */
  async function requestsOf(script: Script, status: number): Promise<number> {
    const visitor = new Visitor();
    const arrival = await toProvider(visitor, host);
    provider.script = script;
    const reply = await toHost(visitor, arrival);
    expect(reply.status).toBe(status);
    if (status === 401) {
      expectRefusal(reply, 'provider');
    }
    return provider.redemptions.get(arrival.parameters.get('code') ?? '') ?? 0;
  }

  it('is read for each login', async () => {
    secrets = ['the first secret', 'the second secret'];
    await expectAccepted(host);
    await expectAccepted(host);
    const sent = provider.seen.filter(({ path }) => path === '/connect/token').slice(-2);
    expect(sent.map(({ form }) => form.get('client_secret'))).toEqual([
      'the first secret',
      'the second secret',
    ]);
    expect(reads).toBe(2);
  });

  it('is read once more after `invalid_client`, and with another secret the code is sent once more', async () => {
    secrets = ['the former secret', 'the new secret'];
    expect(await requestsOf({ clientSecret: 'the new secret' }, 303)).toBe(2);
    expect(reads).toBe(2);
    expect(await requestsOf({ clientSecret: 'the new secret' }, 303)).toBe(1);
  });

  it('is read once more after `unauthorized_client` as well, which Keycloak answers to a wrong secret', async () => {
    secrets = ['the former secret', 'the new secret'];
    const refusal = answers({ error: 'unauthorized_client' }, 400);
    expect(await requestsOf({ token: refusal }, 401)).toBe(2);
    expect(reads).toBe(2);
    expect(provider.seen.at(-1)?.form.get('client_secret')).toBe('the new secret');
  });

  it('is not sent again where it is still the same', async () => {
    secrets = ['the former secret'];
    expect(await requestsOf({ clientSecret: 'the new secret' }, 401)).toBe(1);
    expect(reads).toBe(2);
  });

  it('is read twice at most, however often it changes', async () => {
    secrets = ['one', 'two', 'three', 'four'];
    expect(await requestsOf({ clientSecret: 'none of them' }, 401)).toBe(2);
    expect(reads).toBe(2);
  });

  it.each([
    ['invalid_grant', answers({ error: 'invalid_grant' }, 400), 401],
    ['invalid_request', answers({ error: 'invalid_request' }, 400), 401],
    ['a 401 without an OAuth error', answers({}, 401), 401],
    ['a 5xx that says invalid_client', answers({ error: 'invalid_client' }, 503), 503],
  ])('is not read again after %s, and the code is sent once', async (_, token, status) => {
    secrets = ['one', 'two'];
    expect(await requestsOf({ token }, status)).toBe(1);
    expect(reads).toBe(1);
  });

  it.each([
    ['throws', new Error('the vault is sealed')],
    ['returns nothing', undefined],
    ['returns an empty text', ''],
  ])('is 503 where it %s, and no code is sent', async (_, answer) => {
    secrets = [answer];
    expect(await requestsOf({}, 503)).toBe(0);
  });
});
