import { request } from 'node:http';
import { importSPKI, jwtVerify } from 'jose';
import type { ExhibitorSandbox } from 'nestjs-exhibitor/testing';
import { withDateAhead } from '../support/clock.js';
import { openRequests, publicPemOf, startSandbox } from '../support/sandbox.js';
import { eventually } from '../support/wait.js';
import {
  apiHeaders,
  askToken,
  eventUrl,
  jsonOf,
  lookupUrl,
  tokenOf,
  type Page,
  type Tokens,
} from './rest-client.js';

describe('the REST API of the sandbox', () => {
  let sandbox: ExhibitorSandbox;
  let headers: Record<string, string>;
  beforeAll(async () => {
    sandbox = await startSandbox();
    headers = await apiHeaders(sandbox, 'acme');
  });
  afterAll(() => sandbox?.stop());

  const get = (url: string, more: Record<string, string> = {}) =>
    fetch(url, { headers: { ...headers, ...more } });
  const page = async (eventId: string, query = ''): Promise<Page> =>
    jsonOf(get(eventUrl(sandbox, eventId, query)));

  const lookup = async (email: string, eventId = 'world-2026') =>
    jsonOf<unknown[]>(get(lookupUrl(sandbox, eventId, email)));

  const status = async (some: Record<string, string>) =>
    (await fetch(eventUrl(sandbox, 'boutique-2026'), { headers: some })).status;

  describe('listing an event', () => {
    it('answers page 1 with 50 items unless asked otherwise', async () => {
      expect(await page('world-2026')).toMatchObject({
        paginationMetadata: {
          currentPage: 1,
          totalCount: 1234,
          totalPages: 25,
          hasPreviousPage: false,
          hasNextPage: true,
          itemsPerPage: 50,
        },
        data: sandbox.exhibitors('world-2026', 'acme').slice(0, 50),
      });
    });

    it('gives every exhibitor once and in order over 25 pages of 50', async () => {
      const ids: string[] = [];
      for (let number = 1; number <= 25; number += 1) {
        const { data, paginationMetadata } = await page('world-2026', `?Page=${number}&ItemsPerPage=50`);
        expect(paginationMetadata).toMatchObject({ currentPage: number, hasNextPage: number < 25 });
        ids.push(...data.map(({ id }) => id));
      }

      expect(ids).toHaveLength(1234);
      expect(ids).toEqual(sandbox.exhibitors('world-2026', 'acme').map(({ id }) => id));
      expect(new Set(ids).size).toBe(1234);
    });

    it('treats ItemsPerPage above 50 as 50', async () => {
      const { data, paginationMetadata } = await page('world-2026', '?ItemsPerPage=500');

      expect(paginationMetadata).toMatchObject({ itemsPerPage: 50, totalPages: 25 });
      expect(data).toHaveLength(50);
    });

    it('answers an empty page past the end, with correct metadata', async () => {
      expect(await page('boutique-2026', '?Page=9')).toEqual({
        paginationMetadata: {
          currentPage: 9,
          totalCount: 7,
          totalPages: 1,
          hasPreviousPage: true,
          hasNextPage: false,
          itemsPerPage: 50,
        },
        data: [],
      });
    });

    it.each(['?Page=0', '?Page=-1', '?Page=1.5', '?Page=one', '?Page=', '?Page=1&Page=2', '?ItemsPerPage=0'])(
      'answers 400 to %s',
      async (query) => {
        expect((await get(eventUrl(sandbox, 'world-2026', query))).status).toBe(400);
      },
    );

    it('answers 404 for an unknown event', async () => {
      expect((await get(eventUrl(sandbox, 'unknown-2026'))).status).toBe(404);
      expect((await get(lookupUrl(sandbox, 'unknown-2026', 'olga.one@example.com'))).status).toBe(404);
      expect((await get(`${sandbox.url}/api/v1/exhibitor/event/%E0%A4%A`)).status).toBe(404);
    });

    it('does not normalize the path: an encoded slash belongs to the event, and ".." is an event', async () => {
      sandbox.setExhibitors('2026/spring', [{ id: 'x', contactEmails: [] }]);
      const raw = await new Promise<number | undefined>((resolve) => {
        request(sandbox.url, { path: '/api/v1/exhibitor/event/..', headers }, (reply) => {
          reply.resume();
          resolve(reply.statusCode);
        }).end();
      });

      expect(raw).toBe(404);
      expect(sandbox.requests.at(-1)).toMatchObject({
        operation: 'list',
        path: '/api/v1/exhibitor/event/..',
      });
      expect((await page('2026/spring')).data).toHaveLength(1);
    });
  });

  describe('looking up a contact e-mail', () => {
    it.each([
      ['nora.none@example.com', 0],
      ['sam.several@example.com', 3],
      ['zoë+fair@example.com', 1],
    ])('finds for %s the seeded exhibitors: %i at every event of seven or more', async (email, count) => {
      const events = ['boutique-2026', 'regional-2026', 'national-2026', 'world-2026', 'empty-2026'];
      const counts = await Promise.all(events.map(async (id) => (await lookup(email, id)).length));
      expect(counts).toEqual([count, count, count, count, 0]);
    });

    it('compares byte for byte', async () => {
      expect(await lookup('Olga.One@example.com')).toEqual([]);
      expect(await lookup('zoe\u0308+fair@example.com')).toEqual([]);
      expect(await lookup('zoë fair@example.com')).toEqual([]);
    });
  });

  describe('access control', () => {
    it.each([
      ['no token', { authorization: '' }],
      ['another scheme', { authorization: 'Basic YTpi' }],
      ['a token that is none', { authorization: 'Bearer nonsense' }],
    ])('answers 401 to %s', async (_what, more) => {
      const reply = await get(eventUrl(sandbox, 'world-2026'), more);

      expect(reply.status).toBe(401);
      expect(reply.headers.get('www-authenticate')).toBe('Bearer error="invalid_token"');
      expect(await reply.json()).toMatchObject({ error: 'invalid_token' });
    });

    it('answers 401 to a token with a changed payload', async () => {
      const [head, payload = '', signature] = (await tokenOf(sandbox.tenantOptions('acme'))).split('.');
      const claims = JSON.parse(Buffer.from(payload, 'base64url').toString());
      const forged = Buffer.from(JSON.stringify({ ...claims, client_id: 'globex-api' })).toString(
        'base64url',
      );
      const reply = await get(eventUrl(sandbox, 'world-2026'), {
        authorization: `Bearer ${head}.${forged}.${signature}`,
        'x-tenant-id': sandbox.tenantOptions('globex').tenantId,
      });

      expect(reply.status).toBe(401);
    });

    it.each<[string, () => string]>([
      ['of another tenant', () => sandbox.tenantOptions('globex').tenantId],
      ['left out', () => ''],
    ])('answers 403 to a tenant id %s', async (_, id) => {
      const reply = await get(eventUrl(sandbox, 'world-2026'), { 'x-tenant-id': id() });

      expect(reply.status).toBe(403);
      expect(await reply.json()).toMatchObject({ error: 'tenant_mismatch' });
    });
  });

  it('refuses the tokens revoked of a tenant, or of all', async () => {
    const [acme, globex] = [await apiHeaders(sandbox, 'acme'), await apiHeaders(sandbox, 'globex')];
    sandbox.revokeTokens('acme');
    expect([await status(acme), await status(globex)]).toEqual([401, 200]);
    const next = await apiHeaders(sandbox, 'acme');
    expect(await status(next)).toBe(200);
    sandbox.revokeTokens();
    expect([await status(next), await status(globex)]).toEqual([401, 401]);
  });

  it('answers the exhibitors of setExhibitors: of one tenant, or of a new event', async () => {
    const record = { id: 'new', name: 'New', contactEmails: ['new@example.com'] };
    const fresh = { headers: await apiHeaders(sandbox, 'acme') };
    sandbox.setExhibitors('boutique-2026', [record], 'acme');
    sandbox.setExhibitors('pop-up-2026', [record]);
    const list = fetch(eventUrl(sandbox, 'boutique-2026'), fresh);
    expect((await jsonOf<Page>(list)).data).toEqual([record]);
    expect(sandbox.exhibitors('boutique-2026', 'globex')).toHaveLength(7);
    const found = fetch(lookupUrl(sandbox, 'pop-up-2026', 'new@example.com'), fresh);
    expect(await jsonOf<unknown>(found)).toEqual([record]);
    expect(sandbox.events.at(-1)).toEqual({ id: 'pop-up-2026', title: 'pop-up-2026' });
    expect(() => sandbox.setExhibitors('boutique-2026', [], 'nobody')).toThrow(/no tenant "nobody"/);
  });

  it('adds its latency to every REST reply', async () => {
    const fresh = await apiHeaders(sandbox, 'acme');
    sandbox.latency = 120;
    const started = performance.now();
    await (await fetch(eventUrl(sandbox, 'national-2026'), { headers: fresh })).arrayBuffer();
    sandbox.latency = 0;

    expect(performance.now() - started).toBeGreaterThan(115);
  });
});

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
    const { payload } = await jwtVerify(body.access_token, await importSPKI(publicPemOf(sandbox), 'RS256'), {
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

  describe('in the record of requests', () => {
    beforeEach(() => sandbox.clearRequests());

    it('contains the tenant and the form of a token request', async () => {
      await askToken(sandbox.tenantOptions('initech'));

      expect(sandbox.requests).toEqual([
        expect.objectContaining({
          method: 'POST',
          path: '/connect/token',
          operation: 'token',
          tenantKey: 'initech',
          body: expect.objectContaining({ scope: 'idp_api', client_id: 'initech-api' }),
          status: 200,
          aborted: false,
        }),
      ]);
    });

    it('contains the operation of a REST request and its path', async () => {
      const headers = await apiHeaders(sandbox, 'acme');
      await fetch(lookupUrl(sandbox, 'a/b', 'zoë+fair@example.com'), { headers });
      await fetch(eventUrl(sandbox, 'world-2026', '?Page=2&ItemsPerPage=10'), { headers });

      expect(sandbox.requests.slice(-2)).toMatchObject([
        {
          path: '/api/v1/exhibitor/event/a%2Fb/contactEmail/zo%C3%AB%2Bfair%40example.com',
          operation: 'lookup',
          status: 404,
        },
        {
          path: '/api/v1/exhibitor/event/world-2026',
          operation: 'list',
          query: { Page: '2', ItemsPerPage: '10' },
          tenantKey: 'acme',
          headers: { 'x-tenant-id': headers['x-tenant-id'] },
          status: 200,
        },
      ]);
    });

    it('marks a request whose client left early, and counts open requests', async () => {
      const headers = await apiHeaders(sandbox, 'acme');
      sandbox.latency = 5000;
      const leave = new AbortController();
      const reply = fetch(eventUrl(sandbox, 'world-2026'), { headers, signal: leave.signal });
      const refused = expect(reply).rejects.toThrow();
      await eventually(() => openRequests(sandbox) > 0);
      expect(sandbox.requests.at(-1)).toMatchObject({ operation: 'list', aborted: false });

      leave.abort();
      await refused;
      await eventually(() => openRequests(sandbox) === 0);
      sandbox.latency = 0;
      expect(sandbox.requests.at(-1)).toMatchObject({
        operation: 'list',
        aborted: true,
        status: undefined,
      });
    });
  });
});
