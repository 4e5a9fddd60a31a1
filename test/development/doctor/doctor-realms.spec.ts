import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { Logger } from '@nestjs/common';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Finding } from '../../../lib/development/doctor/index.js';
import { KEYS } from '../../support/provider-keys.js';
import { follow, type TestServer } from '../../support/server.js';
import { findingsOf, named, notOk, stepOf, withValues, type Values } from './findings.js';

/**
 * A provider with several issuers at one address and the words of Keycloak 26: a wrong secret is `unauthorized_client`, an unknown
 * client `invalid_client`, and a realm that does not exist has a JSON error. Beside it, a gateway that asks for a token before it
 * looks at the path.
 */
const SECRETS: Readonly<Record<string, string>> = {
  api: 'secret-of-the-api',
  web: 'secret-of-the-web',
  /** Of another application. */
  shop: 'secret-of-the-shop',
};
/** Of an application in browsers. Keycloak accepts any secret of it. */
const PUBLIC = 'spa';
const REDIRECT = 'http://127.0.0.1:3000/auth/callback';
const REALMS: Readonly<Record<string, keyof typeof KEYS>> = { acme: 'rs256', other: 'attacker' };

type Answer = [status: number, body: unknown, headers?: Readonly<Record<string, string>>];

/** Nothing listens there. */
const DEAF = 'http://127.0.0.1:1';
const DISCOVERED = { 'login.discovery': true, 'login.keys': undefined, 'endpoints.authorize': undefined };

let server: TestServer;
/** How the servers of the next test answer. */
const usual = {
  opaque: false,
  lookup: 200,
  /** The service looks for `idp_api` in the token, and answers 401 or 403 without it. */
  scoped: 0,
  /** All realms know the same clients. The service accepts tokens of `acme` only. */
  twins: false,
  /** Those that the provider knows. */
  scopes: ['idp_api', 'profile'],
  date: (now: Date): Date | undefined => now,
  /** In seconds. */
  issuedBefore: 0,
  age: {},
};
const state = { ...usual };

beforeAll(async () => {
  Logger.overrideLogger(false);
  server = await follow(createServer((request, response) => void answer(request, response)));
});
beforeEach(() => void Object.assign(state, usual));
afterAll(() => server?.stop());

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const form = new URLSearchParams(Buffer.concat(await request.toArray()).toString());
  const url = new URL(request.url ?? '', server.url);
  const isRealm = url.pathname.startsWith('/realms/');
  const [status, body, headers = {}] = isRealm ? realm(url, form) : service(url, request.headers);
  const date = state.date(new Date())?.toUTCString();
  response.sendDate = false;
  const [type, text] =
    typeof body === 'string' ? ['text/html', body] : ['application/json', JSON.stringify(body)];
  response
    .writeHead(status, { 'content-type': type, ...(date && { date }), ...state.age, ...headers })
    .end(text);
}

function realm(url: URL, form: URLSearchParams): Answer {
  const [, , name = '', ...rest] = url.pathname.split('/');
  const key = REALMS[name];
  if (key === undefined) {
    return [404, { error: 'Realm does not exist' }];
  }
  const issuer = `${server.url}/realms/${name}`;
  const endpoints = `${issuer}/protocol/openid-connect`;
  const clients = name === 'acme' || state.twins ? SECRETS : {};
  const [authorization_endpoint, token_endpoint, jwks_uri] = ['auth', 'token', 'certs'].map(
    (path) => `${endpoints}/${path}`,
  );
  const metadata = { issuer, authorization_endpoint, token_endpoint, jwks_uri };
  switch (rest.join('/')) {
    case '.well-known/openid-configuration':
      return [200, metadata];
    case 'protocol/openid-connect/certs':
      return [200, { keys: [{ ...KEYS[key].publicKey.export({ format: 'jwk' }), kid: key, use: 'sig' }] }];
    case 'protocol/openid-connect/auth':
      if (![...Object.keys(clients), PUBLIC].includes(url.searchParams.get('client_id') ?? '')) {
        return [400, '<p>Client not found.</p>'];
      }
      return url.searchParams.get('redirect_uri') === REDIRECT && url.searchParams.get('client_id') === 'web'
        ? [302, '', { location: `${REDIRECT}?error=login_required` }]
        : [400, '<p>Invalid parameter: redirect_uri</p>'];
    case 'protocol/openid-connect/token':
      return token(issuer, clients, form);
    default:
      return [404, { error: 'HTTP 404 Not Found' }];
  }
}

function token(issuer: string, clients: Readonly<Record<string, string>>, form: URLSearchParams): Answer {
  const secret =
    form.get('client_id') === PUBLIC ? form.get('client_secret') : clients[form.get('client_id') ?? ''];
  const description = 'Invalid client or Invalid client credentials';
  if (typeof secret !== 'string') {
    return [401, { error: 'invalid_client', error_description: description }];
  }
  if (form.get('client_secret') !== secret) {
    return [401, { error: 'unauthorized_client', error_description: description }];
  }
  if (form.get('grant_type') === 'authorization_code') {
    return [400, { error: 'invalid_grant', error_description: 'Code not valid' }];
  }
  const scope = form.get('scope') ?? '';
  if (![...state.scopes, ''].includes(scope)) {
    return [400, { error: 'invalid_scope', error_description: 'Invalid scopes' }];
  }
  const iat = Math.floor(Date.now() / 1000) - state.issuedBefore;
  const claims = Buffer.from(JSON.stringify({ iss: issuer, iat, scope })).toString('base64url');
  const accessToken = state.opaque ? 'opaque-token' : `eyJhbGciOiJSUzI1NiJ9.${claims}.c2ln`;
  return [200, { access_token: accessToken, token_type: 'Bearer', expires_in: 300 }];
}

function service({ pathname }: URL, headers: NodeJS.Dict<string | string[]>): Answer {
  if (pathname.startsWith('/.well-known/')) {
    return [404, '<h1>Not Found</h1>'];
  }
  if (headers['authorization'] === undefined) {
    return [401, {}];
  }
  const [, part = ''] = String(headers['authorization']).split('.');
  const claims = Buffer.from(part, 'base64url').toString();
  if (claims.includes('/realms/other')) {
    return [401, {}];
  }
  if (state.scoped > 0 && !claims.includes('idp_api')) {
    return [state.scoped, {}];
  }
  if (headers['x-tenant-id'] !== 't-1') {
    return [403, {}];
  }
  const list = '/api/v1/exhibitor/event/world-2026';
  if (pathname === list) {
    const paginationMetadata = { currentPage: 1, totalCount: 7, totalPages: 7, itemsPerPage: 1 };
    return [200, { paginationMetadata, data: [{ id: '1' }] }];
  }
  return pathname.startsWith(`${list}/contactEmail/`) ? [state.lookup, [{ id: '1' }]] : [404, {}];
}

const at = (name: string, path = ''): string =>
  `${server.url}/realms/${name}${path && `/protocol/openid-connect/${path}`}`;

/** The findings with these values in place of the right ones. */
function examine(values: Values, eventId = 'world-2026'): Promise<Finding[]> {
  const right = {
    tenantId: 't-1',
    baseUrl: server.url,
    authUrl: server.url,
    clientId: 'api',
    clientSecret: SECRETS['api'],
    endpoints: { authorize: at('acme', 'auth'), token: at('acme', 'token') },
    login: {
      clientId: 'web',
      clientSecret: SECRETS['web'],
      redirectUri: REDIRECT,
      issuer: at('acme'),
      keys: at('acme', 'certs'),
    },
  };
  return findingsOf(withValues(right, values), { eventId, contactEmail: 'ann@example.com' });
}

/** Each mistake: the wrong values, or what the clock of the provider says; and the exact options that are named. */
const MISTAKES: Readonly<Record<string, [values: () => Values, options: string]>> = {
  'the secret of the API client': [() => ({ clientSecret: 'wrong-secret' }), 'clientId clientSecret'],
  'the scope': [() => ({ scope: 'api' }), 'scope'],
  'the tenant id': [() => ({ tenantId: 't-2' }), 'tenantId'],
  'the base URL': [() => ({ baseUrl: DEAF }), 'baseUrl'],
  'a path too much in the base URL': [() => ({ baseUrl: `${server.url}/api/v1` }), 'baseUrl'],
  'the token URL': [() => ({ 'endpoints.token': at('acme', 'tokens') }), 'endpoints.token'],
  'a token URL without a realm': [() => ({ 'endpoints.token': at('nowhere', 'token') }), 'endpoints.token'],
  'a token URL of another realm, which knows the API client': [
    () => twins(),
    'baseUrl endpoints.token login.issuer tenantId',
  ],
  'the issuer of another realm': [() => ({ 'login.issuer': at('other') }), 'login.issuer'],
  'an issuer that does not exist': [() => ({ 'login.issuer': at('nowhere') }), 'login.issuer'],
  'an issuer that does not answer': [() => ({ 'login.issuer': DEAF }), 'login.issuer'],
  'the keys': [() => ({ 'login.keys': at('other', 'certs') }), 'login.keys'],
  'the login client': [() => ({ 'login.clientId': 'portal' }), 'login.clientId'],
  'the secret of the login client': [() => ({ 'login.clientSecret': 'wrong-secret' }), 'login.clientSecret'],
  'the login client of another application': [
    () => ({ 'login.clientId': 'shop' }),
    'login.clientId login.clientSecret login.redirectUri',
  ],
  'the public login client of another application': [
    () => ({ 'login.clientId': PUBLIC }),
    'login.clientId login.redirectUri',
  ],
  'the redirect URI': [() => ({ 'login.redirectUri': 'http://127.0.0.1:3000/back' }), 'login.redirectUri'],
  'no scope, where the service needs it': [() => scoped(401, null), 'scope'],
  'another scope, where the service needs it': [() => scoped(403, 'profile'), 'scope'],
  'no scope, where the provider does not know the one that the service needs': [
    () => withoutScope(401, 't-1'),
    'baseUrl endpoints.token scope tenantId',
  ],
  'the tenant id, where the provider does not know the usual scope': [
    () => withoutScope(0, 't-2'),
    'scope tenantId',
  ],
  'the tenant id, with no scope': [() => ({ tenantId: 't-2', scope: null }), 'tenantId'],
  'the audience': [() => ({ 'login.audience': 'portal' }), 'login.audience'],
  'the clock': [() => slow(), 'login.clockTolerance'],
};

function slow(): Values {
  state.date = (now) => new Date(now.getTime() - 600_000);
  return {};
}

function twins(): Values {
  state.twins = true;
  return { 'endpoints.token': at('other', 'token') };
}

function scoped(status: number, scope: string | null): Values {
  state.scoped = status;
  return { scope };
}

/** `scope: null` at a realm without `idp_api`. */
function withoutScope(status: number, tenantId: string): Values {
  state.scopes = [];
  return { ...scoped(status, null), tenantId };
}

describe('realms of a provider', () => {
  it('are right', async () => {
    expect(notOk(await examine({}))).toEqual(['cookies unknown']);
  });

  it.each(Object.entries(MISTAKES))('tell one mistake apart: %s', async (_, [values, options]) => {
    expect(named(await examine(values()))).toBe(options);
  });

  it.each([
    ['the secret of the API client', 'an issuer that does not exist', 'the redirect URI'],
    ['the tenant id', 'the secret of the login client', 'the keys'],
    ['a path too much in the base URL', 'the issuer of another realm', 'the login client'],
    ['the scope', 'the audience', 'the clock'],
    ['the base URL', 'the token URL', 'the redirect URI'],
  ])('tell three mistakes apart in one run: %s, %s, %s', async (...three) => {
    const mistakes = Object.entries(MISTAKES).flatMap(([name, one]) => (three.includes(name) ? [one] : []));
    expect(mistakes).toHaveLength(3);
    const expected = mistakes.flatMap(([, options]) => options.split(' ')).toSorted();
    const values = Object.assign({}, ...mistakes.map(([one]) => one()));
    expect(named(await examine(values))).toBe(expected.join(' '));
  });

  it.each<[string, Values, boolean]>([
    ['and with keys as PEM and tokens that are no JWT', { 'login.keys': KEYS.rs256.pem }, true],
    ['and with a refused secret', { clientSecret: 'wrong-secret' }, false],
    ['and with discovery', DISCOVERED, false],
  ])('are wrong without the issuer %s, never ok or unknown', async (_, values, opaque) => {
    for (const name of ['nowhere', 'other']) {
      state.opaque = opaque;
      const findings = await examine({ 'login.issuer': at(name), ...values });
      const options = expect.stringMatching(/^(?!.*login\.clientId).*login\.issuer/);
      expect([stepOf(findings, 'metadata')?.status, named(findings)]).toEqual(['wrong', options]);
    }
  });

  it('compare the token endpoint of the issuer with an own one, whatever the address of the provider', async () => {
    state.opaque = true;
    const findings = await examine({ authUrl: DEAF, 'login.issuer': at('other') });
    expect(stepOf(findings, 'connection')?.option).toBe('authUrl');
    expect(stepOf(findings, 'metadata')?.option).toBe('login.issuer');
  });

  it('show the whole URL that was sent, without the address of the contact and the query', async () => {
    const { message } = stepOf(await examine({ baseUrl: `${server.url}/api/v1` }), 'list') ?? {};
    expect(message).toBe(`${server.url}/api/v1/api/v1/exhibitor/event/world-2026 answers 404`);
    state.lookup = 500;
    expect(stepOf(await examine({}), 'lookup')?.message).toContain(
      `${server.url}/api/v1/exhibitor/event/world-2026/contactEmail/{contactEmail}: the service answered 500`,
    );
    const dead = stepOf(await examine({ baseUrl: DEAF }), 'connection');
    expect(dead?.message).toContain(`${DEAF}/api/v1/exhibitor/event/world-2026: ECONNREFUSED`);
    const wrongPath = stepOf(await examine({ 'endpoints.token': at('acme', 'tokens') }), 'token');
    expect(wrongPath?.message).toContain(
      `${at('acme', 'tokens')}: the token endpoint refused the API client: HTTP 404`,
    );
  });

  it('name the base URL before the event where its path may be too much', async () => {
    const findings = await examine({ baseUrl: `${server.url}/api/v1` }, 'world-1926');
    expect(stepOf(findings, 'list')?.option).toBe('baseUrl, eventId');
    expect(stepOf(await examine({}, 'world-1926'), 'list')?.option).toBe('eventId');
  });

  it('tell the clock by their token where they send no date; that of a reply of a cache is when it was made', async () => {
    state.date = () => undefined;
    const undated = await examine({});
    expect(notOk(undated)).toEqual(['cookies unknown']);
    expect(stepOf(undated, 'token')?.message).toBe(`${at('acme', 'token')} accepts the API client`);
    state.issuedBefore = 600;
    expect(named(await examine({}))).toBe('login.clockTolerance');
    state.opaque = true;
    const opaque = await examine({});
    expect([named(opaque), stepOf(opaque, 'clock')?.status]).toEqual(['', 'unknown']);
    const refused = await examine({ clientSecret: 'wrong-secret' });
    expect([named(refused), stepOf(refused, 'clock')?.status]).toEqual(['clientId clientSecret', 'unknown']);
    slow();
    state.age = { age: '600' };
    expect(stepOf(await examine({}), 'clock')?.status).toBe('ok');
  });

  it('do not blame the provider for a secret function that never answers', async () => {
    // A script that waits for nothing else must not exit.
    const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
    const before = timers();
    let during = 0;
    const clientSecret = () => {
      setImmediate(() => (during = timers()));
      return new Promise(() => undefined);
    };
    const values = { clientSecret, http: { attemptTimeout: 1_000 } };
    const findings = await examine(values);
    expect(during).toBeGreaterThan(before);
    expect([named(findings), stepOf(findings, 'login')?.status]).toEqual(['clientSecret', 'ok']);
  });
});
