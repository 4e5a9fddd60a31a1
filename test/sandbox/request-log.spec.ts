import type { ExhibitorSandbox } from 'nestjs-exhibitor/testing';
import { apiHeaders, askToken, eventUrl, lookupUrl } from './rest-client.js';
import { eventually } from '../support/wait.js';
import { startSandbox } from '../support/sandbox.js';

describe('the record of requests', () => {
  let sandbox: ExhibitorSandbox;
  beforeAll(async () => {
    sandbox = await startSandbox();
  });
  beforeEach(() => sandbox.clearRequests());
  afterAll(() => sandbox?.stop());

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

  it('shows a client that mixes up its tenants', async () => {
    const [acme, globex] = [await apiHeaders(sandbox, 'acme'), await apiHeaders(sandbox, 'globex')];
    await fetch(eventUrl(sandbox, 'world-2026'), {
      headers: { ...acme, 'x-tenant-id': globex['x-tenant-id'] ?? '' },
    });

    expect(sandbox.requests.at(-1)).toMatchObject({
      tenantKey: 'acme',
      headers: { 'x-tenant-id': globex['x-tenant-id'] },
      status: 403,
    });
  });

  it('marks a request whose client left early, and counts open requests', async () => {
    const headers = await apiHeaders(sandbox, 'acme');
    sandbox.latency = 5000;
    const leave = new AbortController();
    const reply = fetch(eventUrl(sandbox, 'world-2026'), { headers, signal: leave.signal });
    const refused = expect(reply).rejects.toThrow();
    await eventually(() => sandbox.openRequests > 0);
    expect(sandbox.requests.at(-1)).toMatchObject({ operation: 'list', aborted: false });

    leave.abort();
    await refused;
    await eventually(() => sandbox.openRequests === 0);
    sandbox.latency = 0;
    expect(sandbox.requests.at(-1)).toMatchObject({
      operation: 'list',
      aborted: true,
      status: undefined,
    });
  });

  it('is empty after clearRequests', async () => {
    await askToken(sandbox.tenantOptions('acme'));
    sandbox.clearRequests();

    expect(sandbox.requests).toEqual([]);
  });
});
