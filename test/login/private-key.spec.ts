import { createPublicKey } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { jwtVerify } from 'jose';
import { TokenService, type TenantOptions } from '../../lib/index.js';
import { CertifiedProvider } from '../support/certified-provider.js';
import { COOKIE_SECRET, startHost, type Host } from '../support/host.js';
import { KEYS, type SigningKey } from '../support/provider-keys.js';
import { Visitor } from '../support/visitor.js';
import { identityOf } from './journey.js';

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

describe.each(['express', 'fastify'] as const)('private_key_jwt at the certified provider, on %s', (kind) => {
  let host: Host;
  beforeAll(async () => {
    host = await startHost({
      kind,
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
