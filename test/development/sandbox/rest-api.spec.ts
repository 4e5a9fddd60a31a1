import { request } from 'node:http';
import { jest } from '@jest/globals';
import { importSPKI, jwtVerify } from 'jose';
import { useSandbox } from '../../support/lifetimes.js';
import { openRequests, publicPemOf } from '../../support/sandbox.js';
import { eventually } from '../../support/wait.js';
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

const sandbox = await useSandbox();
const [acme, globex] = [sandbox.tenantOptions('acme'), sandbox.tenantOptions('globex')];
const [head, claims] = (await tokenOf(acme)).split('.');
const [, , otherSignature] = (await tokenOf(globex)).split('.');
let headers: Record<string, string>;
beforeEach(async () => {
  headers = await apiHeaders(sandbox, 'acme');
  sandbox.clearRequests();
});

const get = (url: string, more: Record<string, string> = {}) =>
  fetch(url, { headers: { ...headers, ...more } });
const page = async (eventId: string, query = ''): Promise<Page> =>
  jsonOf(get(eventUrl(sandbox, eventId, query)));
const lookup = async (email: string, eventId = 'world-2026') =>
  jsonOf<unknown[]>(get(lookupUrl(sandbox, eventId, email)));
const status = async (some: Record<string, string> = headers) =>
  (await fetch(eventUrl(sandbox, 'boutique-2026'), { headers: some })).status;

describe('a list', () => {
  it('is the wrapper of the specification, with 50 exhibitors by default and at most', async () => {
    const [first, second, last, past] = await Promise.all(
      ['', '?Page=2&ItemsPerPage=500', '?Page=6', '?Page=9'].map((query) => page('national-2026', query)),
    );
    const all = sandbox.exhibitors('national-2026', 'acme');
    const common = { totalCount: 251, totalPages: 6, itemsPerPage: 50 };
    const metadata = (currentPage: number, hasPreviousPage: boolean, hasNextPage: boolean) => ({
      paginationMetadata: { ...common, currentPage, hasPreviousPage, hasNextPage },
    });
    expect(first).toEqual({ ...metadata(1, false, true), data: all.slice(0, 50) });
    expect(second).toEqual({ ...metadata(2, true, true), data: all.slice(50, 100) });
    expect(last).toEqual({ ...metadata(6, true, false), data: all.slice(250) });
    expect(past).toEqual({ ...metadata(9, true, false), data: [] });
  });

  it.each(['?Page=0', '?Page=-1', '?Page=1.5', '?Page=one', '?Page=', '?Page=1&Page=2', '?ItemsPerPage=0'])(
    'is 400 with %s',
    async (query) => {
      expect((await get(eventUrl(sandbox, 'world-2026', query))).status).toBe(400);
    },
  );

  it('is 404 for an unknown event, as a lookup', async () => {
    expect((await get(eventUrl(sandbox, 'unknown-2026'))).status).toBe(404);
    expect((await get(lookupUrl(sandbox, 'unknown-2026', 'olga.one@example.com'))).status).toBe(404);
    expect((await get(`${sandbox.url}/api/v1/exhibitor/event/%E0%A4%A`)).status).toBe(404);
  });

  it('is that of the path as it is: an encoded slash belongs to the event, and ".." is an event', async () => {
    sandbox.setExhibitors('2026/spring', [{ id: 'x', contactEmails: [] }]);
    const path = '/api/v1/exhibitor/event/..';
    const raw = await new Promise<number | undefined>((resolve) => {
      request(sandbox.url, { path, headers }, (reply) => {
        reply.resume();
        resolve(reply.statusCode);
      }).end();
    });
    expect(raw).toBe(404);
    expect(sandbox.requests.at(-1)).toMatchObject({ operation: 'list', path });
    expect((await page('2026/spring')).data).toHaveLength(1);
  });
});

describe('a lookup', () => {
  it.each([
    ['nora.none@example.com', 0],
    ['sam.several@example.com', 3],
    ['zoë+fair@example.com', 1],
  ])('finds for %s the seeded exhibitors: %i at every event of seven or more', async (email, count) => {
    const events = ['boutique-2026', 'regional-2026', 'national-2026', 'world-2026', 'empty-2026'];
    const counts = await Promise.all(events.map(async (id) => (await lookup(email, id)).length));
    expect(counts).toEqual([count, count, count, count, 0]);
  });

  it.each(['Olga.One@example.com', 'zoe\u0308+fair@example.com', 'zoë fair@example.com'])(
    'compares byte for byte: %s',
    async (email) => {
      expect(await lookup(email)).toEqual([]);
    },
  );
});

describe('access', () => {
  it.each<[string, number, string, Record<string, string>]>([
    ['no token', 401, 'invalid_token', { authorization: '' }],
    ['another scheme', 401, 'invalid_token', { authorization: 'Basic YTpi' }],
    [
      'a wrong signature',
      401,
      'invalid_token',
      { authorization: `Bearer ${head}.${claims}.${otherSignature}` },
    ],
    ['another tenant id', 403, 'tenant_mismatch', { 'x-tenant-id': globex.tenantId }],
    ['no tenant id', 403, 'tenant_mismatch', { 'x-tenant-id': '' }],
  ])('is refused with %s: %i', async (_what, refusal, error, more) => {
    const reply = await get(eventUrl(sandbox, 'world-2026'), more);
    expect([reply.status, await reply.json()]).toEqual([refusal, expect.objectContaining({ error })]);
    const challenge = refusal === 401 ? 'Bearer error="invalid_token"' : null;
    expect(reply.headers.get('www-authenticate')).toBe(challenge);
  });

  it('ends with the tokens revoked of a tenant, or of all', async () => {
    const ofGlobex = await apiHeaders(sandbox, 'globex');
    sandbox.revokeTokens('acme');
    expect([await status(), await status(ofGlobex)]).toEqual([401, 200]);
    const next = await apiHeaders(sandbox, 'acme');
    expect(await status(next)).toBe(200);
    sandbox.revokeTokens();
    expect([await status(next), await status(ofGlobex)]).toEqual([401, 401]);
  });

  it('ends with the lifetime of a token, tokenLifetime', async () => {
    sandbox.tokenLifetime = 5;
    const short = await apiHeaders(sandbox, 'acme');
    const { expires_in: lifetime } = await jsonOf<Tokens>(askToken(acme));
    sandbox.tokenLifetime = 3600;
    const before = await status(short);
    const doNotFake = ['nextTick', 'performance', 'queueMicrotask', 'setImmediate'] as const;
    jest.useFakeTimers({ now: Date.now() + 6_100, advanceTimers: true, doNotFake: [...doNotFake] });
    const after = await status(short);
    jest.useRealTimers();
    expect([lifetime, before, after]).toEqual([5, 200, 401]);
  });
});

it('answers the exhibitors of setExhibitors: of one tenant, or of a new event', async () => {
  const record = { id: 'new', name: 'New', contactEmails: ['new@example.com'] };
  sandbox.setExhibitors('regional-2026', [record], 'acme');
  sandbox.setExhibitors('pop-up-2026', [record]);
  expect((await page('regional-2026')).data).toEqual([record]);
  expect(sandbox.exhibitors('regional-2026', 'globex')).toHaveLength(50);
  expect(await lookup('new@example.com', 'pop-up-2026')).toEqual([record]);
  expect(() => sandbox.setExhibitors('regional-2026', [], 'nobody')).toThrow(/no tenant "nobody"/);
});

it('adds its latency to every REST reply', async () => {
  sandbox.latency = 120;
  const started = performance.now();
  await (await get(eventUrl(sandbox, 'national-2026'))).arrayBuffer();
  sandbox.latency = 0;
  expect(performance.now() - started).toBeGreaterThan(115);
});

describe('the token endpoint', () => {
  it('issues a signed JWT for an hour by the client credentials grant', async () => {
    const reply = await askToken(acme);
    const body = await jsonOf<Tokens>(reply);
    expect([reply.status, body]).toEqual([
      200,
      { access_token: expect.any(String), expires_in: 3600, token_type: 'Bearer', scope: 'idp_api' },
    ]);
    const key = await importSPKI(publicPemOf(sandbox), 'RS256');
    const { payload } = await jwtVerify(body.access_token, key, { issuer: sandbox.url, typ: 'at+jwt' });
    expect(payload).toMatchObject({ client_id: 'acme-api', scope: 'idp_api' });
    expect((payload.exp ?? 0) - (payload.iat ?? 0)).toBe(3600);
  });

  it('accepts the credentials in the Basic header, form-encoded first (RFC 6749 §2.3.1)', async () => {
    const [user, secret] = [globex.clientId, globex.clientSecret].map((text) =>
      new URLSearchParams({ '': text }).toString().slice(1),
    );
    const reply = await fetch(`${sandbox.url}/connect/token`, {
      method: 'POST',
      headers: { authorization: `Basic ${Buffer.from(`${user}:${secret}`).toString('base64')}` },
      body: new URLSearchParams({ grant_type: 'client_credentials', scope: 'idp_api' }),
    });
    expect(reply.status).toBe(200);
    expect(sandbox.requests.at(-1)).toMatchObject({ operation: 'token', tenantKey: 'globex' });
  });

  it.each<[string, Record<string, string>, number, string]>([
    ['a wrong secret', { client_secret: 'wrong' }, 401, 'invalid_client'],
    ['an unknown client', { client_id: 'nobody' }, 401, 'invalid_client'],
    ['another grant type', { grant_type: 'password' }, 400, 'unsupported_grant_type'],
    ['no grant type', { grant_type: '' }, 400, 'invalid_request'],
    ['no client', { client_id: '' }, 400, 'invalid_request'],
    [
      'a login client',
      { client_id: acme.login.clientId, client_secret: acme.login.clientSecret ?? '' },
      400,
      'invalid_request',
    ],
  ])('refuses %s', async (_what, fields, refusal, error) => {
    const reply = await askToken(acme, fields);
    const text = error === 'invalid_client' ? 'Invalid client credentials' : expect.any(String);
    expect([reply.status, await reply.json()]).toEqual([refusal, { error, error_description: text }]);
  });
});

describe('the record of requests', () => {
  it('has operation, path, query, tenant and form of each', async () => {
    await askToken(sandbox.tenantOptions('initech'));
    await get(lookupUrl(sandbox, 'a/b', 'zoë+fair@example.com'));
    await get(eventUrl(sandbox, 'world-2026', '?Page=2&ItemsPerPage=10'));
    expect(sandbox.requests).toMatchObject([
      {
        method: 'POST',
        path: '/connect/token',
        operation: 'token',
        tenantKey: 'initech',
        body: { scope: 'idp_api', client_id: 'initech-api' },
        status: 200,
        aborted: false,
      },
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
        headers: { 'x-tenant-id': acme.tenantId },
        status: 200,
      },
    ]);
  });

  it('marks a request whose client left early', async () => {
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
    expect(sandbox.requests.at(-1)).toMatchObject({ aborted: true, status: undefined });
  });
});
