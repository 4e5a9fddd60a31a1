import { importSPKI, jwtVerify } from 'jose';
import type { ExhibitorSandbox } from 'nestjs-exhibitor/testing';
import { apiHeaders, askToken, eventUrl, jsonOf, type Tokens } from './rest-client.js';
import { withDateAhead } from '../support/clock.js';
import { startSandbox } from '../support/sandbox.js';

describe('the token endpoint of the sandbox', () => {
  let sandbox: ExhibitorSandbox;
  beforeAll(async () => {
    sandbox = await startSandbox();
  });
  afterAll(() => sandbox?.stop());

  it('issues a signed JWT for an hour by the client credentials grant', async () => {
    const reply = await askToken(sandbox.tenantOptions('acme'));
    const body = await jsonOf<Tokens>(reply);

    expect(reply.status).toBe(200);
    expect(body).toEqual({
      access_token: expect.any(String),
      expires_in: 3600,
      token_type: 'Bearer',
      scope: 'idp_api',
    });
    const { payload } = await jwtVerify(body.access_token, await importSPKI(sandbox.publicKeyPem, 'RS256'), {
      issuer: sandbox.url,
      typ: 'at+jwt',
    });
    expect(payload).toMatchObject({ client_id: 'acme-api', scope: 'idp_api' });
    expect((payload.exp ?? 0) - (payload.iat ?? 0)).toBe(3600);
  });

  it('accepts the credentials in the Basic header, form-encoded first (RFC 6749 §2.3.1)', async () => {
    const { authUrl, clientId, clientSecret } = sandbox.tenantOptions('globex');
    const [user, secret] = [clientId, clientSecret].map((text) =>
      new URLSearchParams({ '': text }).toString().slice(1),
    );
    const reply = await fetch(`${authUrl}/connect/token`, {
      method: 'POST',
      headers: { authorization: `Basic ${Buffer.from(`${user}:${secret}`).toString('base64')}` },
      body: new URLSearchParams({ grant_type: 'client_credentials', scope: 'idp_api' }),
    });

    expect(reply.status).toBe(200);
    expect(sandbox.requests.at(-1)).toMatchObject({
      operation: 'token',
      tenantKey: 'globex',
    });
  });

  it('grants the API scope when none is requested', async () => {
    const { authUrl, clientId, clientSecret } = sandbox.tenantOptions('acme');
    const reply = await fetch(`${authUrl}/connect/token`, {
      method: 'POST',
      body: new URLSearchParams({
        grant_type: 'client_credentials',
        client_id: clientId,
        client_secret: clientSecret,
      }),
    });

    expect(await reply.json()).toMatchObject({ scope: 'idp_api' });
  });

  it.each([
    ['a wrong secret', { client_secret: 'wrong' }],
    ['an unknown client', { client_id: 'nobody' }],
  ])('answers invalid_client to %s', async (_what, fields) => {
    const reply = await askToken(sandbox.tenantOptions('acme'), fields);

    expect(reply.status).toBe(401);
    expect(await reply.json()).toEqual({
      error: 'invalid_client',
      error_description: 'Invalid client credentials',
    });
  });

  it.each([
    ['another grant type', { grant_type: 'password' }, 'unsupported_grant_type'],
    ['no grant type', { grant_type: '' }, 'invalid_request'],
    ['no client', { client_id: '' }, 'invalid_request'],
  ])('answers an OAuth error to %s', async (_what, fields, error) => {
    const reply = await askToken(sandbox.tenantOptions('acme'), fields);

    expect(reply.status).toBe(400);
    expect(await reply.json()).toMatchObject({ error, error_description: expect.any(String) });
  });

  it('issues no API token to a login client', async () => {
    const { login } = sandbox.tenantOptions('acme');
    const reply = await askToken(sandbox.tenantOptions('acme'), {
      client_id: login.clientId,
      client_secret: login.clientSecret ?? '',
    });

    expect(reply.status).toBe(400);
    expect(await reply.json()).not.toHaveProperty('access_token');
  });

  it('issues tokens with the lifetime of tokenLifetime, which the API refuses after they expired', async () => {
    sandbox.tokenLifetime = 5;
    const headers = await apiHeaders(sandbox, 'acme');
    const { expires_in: lifetime } = await jsonOf<Tokens>(askToken(sandbox.tenantOptions('acme')));
    sandbox.tokenLifetime = 3600;
    const status = async (): Promise<number> =>
      (await fetch(eventUrl(sandbox, 'boutique-2026'), { headers })).status;
    const statuses = [await status(), await withDateAhead(6_100, status)];

    expect(lifetime).toBe(5);
    expect(statuses).toEqual([200, 401]);
  });
});
