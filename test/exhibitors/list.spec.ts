import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { firstValueFrom, lastValueFrom, toArray } from 'rxjs';
import { z } from 'zod';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { handMadeCases, startRestHost, threeTenants, type Answer, type RestHost } from './rest-host.js';
import { sendJson } from '../support/server.js';
import { clockOf } from '../support/clock.js';
import { aWhile } from '../support/wait.js';
import { startSandbox } from '../support/sandbox.js';
import { traced } from '../support/traced-requests.js';

const { against } = handMadeCases();
let sandbox: ExhibitorSandbox;
let host: RestHost;

beforeAll(async () => {
  sandbox = await startSandbox();
  host = await startRestHost(threeTenants(sandbox));
});
afterAll(async () => {
  await host?.close();
  await sandbox?.stop();
});
beforeEach(() => sandbox.clearRequests());

const lists = () => traced(sandbox).filter(({ operation }) => operation === 'list');

describe('list', () => {
  it('emits one page exactly as the service sends it', async () => {
    const page = await firstValueFrom(host.exhibitors.list('national-2026', { tenant: 'acme', page: 6 }));
    expect(page).toEqual({
      paginationMetadata: {
        currentPage: 6,
        totalCount: 251,
        totalPages: 6,
        hasPreviousPage: true,
        hasNextPage: false,
        itemsPerPage: 50,
      },
      data: sandbox.exhibitors('national-2026', 'acme').slice(250),
    });
  });

  it('always sends page and page size, and the headers of the specification', async () => {
    await firstValueFrom(host.exhibitors.list('regional-2026', { tenant: 'globex' }));
    await firstValueFrom(
      host.exhibitors.list('regional-2026', { tenant: 'globex', page: 2, itemsPerPage: 7 }),
    );
    expect(lists().map(({ query }) => query)).toEqual([
      { Page: '1', ItemsPerPage: '50' },
      { Page: '2', ItemsPerPage: '7' },
    ]);
    const [first] = lists();
    expect(first?.headers).toMatchObject({ accept: 'application/json' });
    expect(first).toMatchObject({ tenantKey: 'globex', headerTenantKey: 'globex', status: 200 });
  });

  it('sends one request for each call, equal ones too, and none before the subscription', async () => {
    const call = host.exhibitors.list('regional-2026', { tenant: 'acme' });
    await aWhile();
    expect(lists()).toHaveLength(0);
    await Promise.all([firstValueFrom(call), firstValueFrom(call)]);
    expect(lists()).toHaveLength(2);
  });

  it('encodes an event id so that it stays one segment of the path', async () => {
    const eventId = 'a:b&c=d+e ‥. é';
    await expect(firstValueFrom(host.exhibitors.list(eventId, { tenant: 'acme' }))).rejects.toMatchObject({
      code: 'not_found',
      tenant: 'acme',
      status: 404,
      attempts: 1,
    });
    expect(lists().map((request) => request.eventId)).toEqual([eventId]);
  });

  it.each([
    ['eventId', '..', {}],
    ['eventId', '..%2Fadmin', {}],
    ['eventId', 'a/../b', {}],
    ['eventId', 'world/', {}],
    ['eventId', '', {}],
    ['page', 'regional-2026', { page: 0 }],
    ['itemsPerPage', 'regional-2026', { itemsPerPage: 51 }],
    ['deadline', 'regional-2026', { deadline: 0 }],
  ])('refuses a wrong %s through the Observable and sends nothing', async (name, eventId, options) => {
    const call = host.exhibitors.list(eventId, { tenant: 'acme', ...options });
    await expect(firstValueFrom(call)).rejects.toMatchObject({
      code: 'invalid_argument',
      message: expect.stringContaining(name),
    });
    expect(sandbox.requests).toHaveLength(0);
  });

  it('requires a tenant where there are several', async () => {
    await expect(firstValueFrom(host.exhibitors.list('regional-2026'))).rejects.toMatchObject({
      code: 'tenant_required',
    });
    const unknown = host.exhibitors.list('regional-2026', { tenant: 'umbrella' });
    await expect(firstValueFrom(unknown)).rejects.toMatchObject({ code: 'unknown_tenant' });
    expect(sandbox.requests).toHaveLength(0);
  });

  it('uses the tenant of a bound view only', async () => {
    const initech = host.exhibitors.forTenant('initech');
    await firstValueFrom(initech.list('regional-2026'));
    await expect(firstValueFrom(initech.list('regional-2026', { tenant: 'acme' }))).rejects.toMatchObject({
      code: 'invalid_argument',
    });
    expect(lists().map(({ headerTenantKey }) => headerTenantKey)).toEqual(['initech']);
  });

  it('replaces a refused token once', async () => {
    await firstValueFrom(host.exhibitors.list('regional-2026', { tenant: 'acme' }));
    sandbox.revokeTokens('acme');
    sandbox.clearRequests();
    const { data } = await firstValueFrom(host.exhibitors.list('regional-2026', { tenant: 'acme' }));
    expect(data).toHaveLength(50);
    expect(sandbox.requests.map(({ operation, status }) => [operation, status])).toEqual([
      ['list', 401],
      ['token', 200],
      ['list', 200],
    ]);
  });

  it('replaces a token that was refused for many calls by one request', async () => {
    await firstValueFrom(host.exhibitors.list('regional-2026', { tenant: 'acme' }));
    sandbox.revokeTokens('acme');
    sandbox.clearRequests();
    const calls = Array.from({ length: 20 }, () =>
      firstValueFrom(host.exhibitors.list('regional-2026', { tenant: 'acme' })),
    );
    await Promise.all(calls);
    expect(sandbox.requests.filter(({ operation }) => operation === 'token')).toHaveLength(1);
  });

  it.each([
    [401, 'access_denied', 2],
    [403, 'access_denied', 1],
    [400, 'request_rejected', 1],
    [409, 'request_rejected', 1],
    [422, 'request_rejected', 1],
  ])('turns a %i into %s after %i requests', async (status, code, attempts) => {
    sandbox.failNext('list', { kind: 'status', status }, attempts);
    const call = host.exhibitors.list('regional-2026', { tenant: 'acme' });
    await expect(firstValueFrom(call)).rejects.toMatchObject({ code, status, attempts, tenant: 'acme' });
    expect(lists()).toHaveLength(attempts);
  });

  it('sends nothing where the signal is already aborted', async () => {
    const call = host.exhibitors.list('regional-2026', { tenant: 'acme', signal: AbortSignal.abort() });
    await expect(firstValueFrom(call)).rejects.toMatchObject({ code: 'aborted' });
    await aWhile();
    expect(sandbox.requests).toHaveLength(0);
  });
});

describe('a call that ends before its tenant is found', () => {
  it('leaves no unhandled rejection', async () => {
    const unhandled: unknown[] = [];
    const collect = (reason: unknown): void => void unhandled.push(reason);
    process.on('unhandledRejection', collect);
    const call = host.exhibitors.list('regional-2026', { tenant: 'umbrella', signal: AbortSignal.abort() });
    await expect(firstValueFrom(call)).rejects.toMatchObject({ code: 'aborted' });
    await aWhile();
    process.off('unhandledRejection', collect);
    expect(unhandled).toEqual([]);
  });
});

describe('a reply to list without the documented shape', () => {
  it.each<[string, Answer]>([
    ['an array', () => []],
    ['a wrapper without paging information', () => ({ data: [] })],
    ['no content', ({ response }) => void response.writeHead(204).end()],
  ])('is malformed: %s', async (_name, answer) => {
    const { exhibitors, service, tenant } = against(answer);
    const failure = { code: 'malformed_response', tenant };
    await expect(firstValueFrom(exhibitors.list('e'))).rejects.toMatchObject(failure);
    expect(service.urls).toHaveLength(1);
  });
});

describe('exhibitorSchema', () => {
  const record = z.object({ id: z.string(), name: z.string().transform((name) => ({ shown: name })) });
  type Booth = z.output<typeof record>;

  it('checks every record, and its output is what the host gets', async () => {
    const typed = await startRestHost<Booth>({
      tenant: sandbox.tenantOptions('acme'),
      exhibitorSchema: record,
    });
    const [first] = sandbox.exhibitors('boutique-2026', 'acme');
    const expected = { id: first?.id, name: { shown: first?.name } };
    const page = await firstValueFrom(typed.exhibitors.list('boutique-2026'));
    expect(page.data[0]).toEqual(expected);
    expect(page.paginationMetadata.totalCount).toBe(7);
    const streamed = await lastValueFrom(typed.exhibitors.stream('boutique-2026').pipe(toArray()));
    expect(streamed[0]?.name.shown).toBe(first?.name);
    const [found] = await firstValueFrom(typed.exhibitors.lookup('boutique-2026', 'olga.one@example.com'));
    expect(found?.name).toHaveProperty('shown');
    await typed.close();
  });

  it('may be asynchronous, within the deadline', async () => {
    const never = z.object({}).refine(() => new Promise<boolean>(() => {}));
    const typed = await startRestHost({ tenant: sandbox.tenantOptions('acme'), exhibitorSchema: never });
    const call = firstValueFrom(typed.exhibitors.list('boutique-2026', { deadline: 300 }));
    await expect(call).rejects.toMatchObject({ code: 'deadline_exceeded' });
    await typed.close();
  });
});

describe('a tenant known only at run time', () => {
  it('is found within the deadline of the call', async () => {
    const source = { find: () => new Promise<undefined>(() => {}) };
    const late = await startRestHost({
      tenants: source,
      allowedOrigins: () => true,
      http: { deadline: 1_000 },
    });
    const call = firstValueFrom(late.exhibitors.list('regional-2026', { tenant: 'acme', deadline: 100 }));
    await expect(call).rejects.toMatchObject({ code: 'deadline_exceeded' });
    await late.close();
  });

  it('leaves the call the rest of its deadline', async () => {
    const find = async (key: string) => {
      clockOf(slow.context).skip(20_000);
      return sandbox.tenantOptions(key);
    };
    const slow = await startRestHost({ tenants: { find }, allowedOrigins: () => true });
    const list = () => firstValueFrom(slow.exhibitors.list('regional-2026', { tenant: 'acme' }));
    await expect(list()).rejects.toMatchObject({ code: 'deadline_exceeded', tenant: 'acme' });
    await expect(list()).resolves.toMatchObject({ data: expect.anything() });
    await slow.close();
  });
});

/** 401 to the first request, this status to all others. */
const after401 =
  (status: number): Answer =>
  ({ count, response }) =>
    sendJson(response, {}, count === 1 ? 401 : status);

describe('error.attempts', () => {
  it.each([
    [503, 'service_unavailable', 4],
    [429, 'rate_limited', 4],
    [401, 'access_denied', 2],
    [403, 'access_denied', 2],
    [400, 'request_rejected', 2],
  ])('counts the request before a 401 as well, where %i follows', async (status, code, attempts) => {
    const { exhibitors, service } = against(after401(status));
    await expect(firstValueFrom(exhibitors.list('event'))).rejects.toMatchObject({ code, attempts });
    await expect(firstValueFrom(exhibitors.lookup('event', 'olga@example.com'))).rejects.toMatchObject({
      code,
    });
    expect(service.urls.filter((url) => !url.includes('contactEmail'))).toHaveLength(attempts);
  });

  it('counts it where the deadline passes afterwards', async () => {
    const { exhibitors } = against(
      ({ count, response }) => (count === 1 ? sendJson(response, {}, 401) : undefined),
      { deadline: 200 },
    );
    await expect(firstValueFrom(exhibitors.list('event'))).rejects.toMatchObject({
      code: 'deadline_exceeded',
      attempts: 2,
    });
  });
});
