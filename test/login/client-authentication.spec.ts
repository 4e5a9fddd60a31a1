import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { ScriptedProvider, type LoginOverrides } from '../support/provider.js';
import { answers, type Script } from '../support/provider-script.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { Visitor } from '../support/visitor.js';
import { expectAccepted, expectRefusal, identityOf, toHost, toProvider } from './journey.js';
import { startSandbox } from '../support/sandbox.js';
import { createPublicKey } from 'node:crypto';
import { jwtVerify } from 'jose';
import { TokenService, type TenantOptions } from '../../lib/index.js';
import { CertifiedProvider } from '../support/certified-provider.js';
import { KEYS, type SigningKey } from '../support/provider-keys.js';

let sandbox: ExhibitorSandbox;
beforeAll(async () => {
  sandbox = await startSandbox();
  sandbox.signInAs('olga.one@example.com');
});
afterAll(() => sandbox?.stop());

/** Logs in at globex, whose secrets have reserved characters; returns the token request. */
async function tokenRequestOf(login: LoginOverrides, publicClient = false) {
  const host = await startHost({
    options: (redirectUri) => {
      const tenant = sandbox.tenantOptions('globex', { redirectUri, publicClient });
      return { tenant: { ...tenant, login: { ...tenant.login, ...login } }, secrets: [COOKIE_SECRET] };
    },
  });
  sandbox.clearRequests();
  const visitor = new Visitor();
  await visitor.follow(`${host.url}/auth/login`, (url) => url.href === `${host.url}/`);
  const identity = await identityOf(visitor, host);
  await host.close();
  expect(identity).toMatchObject({ subject: 'olga.one' });
  const request = sandbox.requests.find(({ path }) => path === '/connect/token');
  if (request === undefined) {
    throw new Error('the code was not redeemed');
  }
  return request;
}

describe('the client of a login authenticates at the certified provider', () => {
  it('in the body, with reserved characters', async () => {
    const { headers, body } = await tokenRequestOf({ clientAuth: 'post' });
    expect(headers.authorization).toBeUndefined();
    expect(body).toMatchObject({
      client_id: 'globex-web',
      client_secret: 'globex-web-secret-for+development/only&=%20:?',
    });
  });

  it('in the header, with id and secret form-encoded before they are joined', async () => {
    const { headers, body } = await tokenRequestOf({ clientAuth: 'basic' });
    const pair = Buffer.from(String(headers.authorization).replace('Basic ', ''), 'base64').toString();
    expect(pair).toBe('globex-web:globex-web-secret-for%2Bdevelopment%2Fonly%26%3D%2520%3A%3F');
    expect(body).not.toHaveProperty('client_id');
    expect(body).not.toHaveProperty('client_secret');
  });

  it('as a public client by PKCE only, without a secret, not even an empty one', async () => {
    const { headers, body } = await tokenRequestOf({}, true);
    expect(headers.authorization).toBeUndefined();
    expect(body).toMatchObject({ client_id: 'globex-app' });
    expect(body).not.toHaveProperty('client_secret');
  });

  it('never in the URL', async () => {
    const { query } = await tokenRequestOf({});
    expect(query).toEqual({});
  });
});

describe('the secret of a login as a function', () => {
  let provider: ScriptedProvider;
  let host: Host;
  /** What the function of the host answers next, and then again and again. */
  let secrets: unknown[] = [];
  let reads = 0;
  beforeAll(async () => {
    provider = await ScriptedProvider.start();
    const clientSecret = async (): Promise<string> => {
      reads += 1;
      const next = secrets.length > 1 ? secrets.shift() : secrets[0];
      if (next instanceof Error) {
        throw next;
      }
      return next as string;
    };
    host = await startHost({
      options: (callback) => ({
        tenant: provider.tenantOptions(callback, { clientSecret }),
        secrets: [COOKIE_SECRET],
      }),
    });
  });
  afterEach(() => {
    provider.script = {};
    reads = 0;
  });
  afterAll(() => Promise.all([host?.close(), provider?.stop()]));

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

const LOGIN_KEY = KEYS.es256;
const API_KEY = KEYS.next;

const clientWith = (key: SigningKey) => ({
  token_endpoint_auth_method: 'private_key_jwt' as const,
  token_endpoint_auth_signing_alg: key.alg as 'RS256',
  jwks: { keys: [{ ...key.jwk }] },
});

let provider: CertifiedProvider;
beforeAll(async () => {
  provider = await CertifiedProvider.start([
    { client_id: 'web', ...clientWith(LOGIN_KEY) },
    {
      client_id: 'api',
      grant_types: ['client_credentials'],
      response_types: [],
      redirect_uris: [],
      scope: 'idp_api',
      ...clientWith(API_KEY),
    },
  ]);
});
afterAll(() => provider?.stop());

/** The assertion of the last token request, verified with its key. */
async function lastAssertion({ publicKey }: SigningKey) {
  const { form, authorization } = provider.tokenRequests.at(-1) ?? {};
  expect(authorization).toBeUndefined();
  expect(form?.has('client_secret')).toBe(false);
  expect(form?.get('client_assertion_type')).toBe('urn:ietf:params:oauth:client-assertion-type:jwt-bearer');
  const { protectedHeader, payload } = await jwtVerify(
    form?.get('client_assertion') ?? '',
    createPublicKey(publicKey.export({ type: 'spki', format: 'pem' })),
  );
  return { header: protectedHeader, claims: payload };
}

describe('private_key_jwt at the certified provider', () => {
  let host: Host;
  beforeAll(async () => {
    host = await startHost({
      options: (redirectUri): { tenant: TenantOptions; secrets: string[] } => ({
        tenant: {
          tenantId: 't',
          baseUrl: provider.url,
          authUrl: provider.url,
          endpoints: {
            authorize: `${provider.url}/auth`,
            token: `${provider.url}/token`,
            userinfo: `${provider.url}/me`,
          },
          clientId: 'api',
          clientAuth: { privateKey: API_KEY.privateKey, kid: API_KEY.kid },
          login: {
            clientId: 'web',
            clientAuth: {
              privateKey: LOGIN_KEY.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
            },
            redirectUri,
            issuer: provider.url,
            keys: KEYS.rs256.pem,
          },
        },
        secrets: [COOKIE_SECRET],
      }),
    });
  });
  afterAll(() => host?.close());

  it('authenticates a login, with the issuer as audience', async () => {
    const visitor = new Visitor();
    await visitor.follow(`${host.url}/auth/login`, (url) => url.href === `${host.url}/`);
    expect(await identityOf(visitor, host)).toMatchObject({ subject: 'pat', email: 'pat@example.com' });
    const { header, claims } = await lastAssertion(LOGIN_KEY);
    expect(header).toEqual({ alg: 'ES256', typ: 'client-authentication+jwt' });
    expect(claims).toEqual({
      iss: 'web',
      sub: 'web',
      aud: provider.url,
      jti: expect.any(String),
      iat: expect.any(Number),
      exp: Number(claims.iat) + 60,
    });
  });

  it('authenticates the API client, with the URL of the token endpoint as audience', async () => {
    const tokens = host.app.get(TokenService);
    await expect(tokens.getToken()).resolves.toMatchObject({ tokenType: 'Bearer' });
    const first = await lastAssertion(API_KEY);
    expect(first.header).toEqual({ alg: 'RS256', typ: 'JWT', kid: API_KEY.kid });
    expect(first.claims).toMatchObject({ iss: 'api', sub: 'api', aud: `${provider.url}/token` });
    await tokens.invalidate();
    await expect(tokens.getToken()).resolves.toMatchObject({ tokenType: 'Bearer' });
    expect((await lastAssertion(API_KEY)).claims.jti).not.toBe(first.claims.jti);
  });
});
