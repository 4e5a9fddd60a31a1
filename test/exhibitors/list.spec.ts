import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { firstValueFrom, lastValueFrom, toArray } from 'rxjs';
import { z } from 'zod';
import type { ListOptions } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { handMadeCases, startRestHost, threeTenants, type Answer, type RestHost } from './rest-host.js';
import { unhandledIn } from '../support/messages.js';
import { sendJson } from '../support/server.js';
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
const list = (options: ListOptions = {}, eventId = 'regional-2026') =>
  firstValueFrom(host.exhibitors.list(eventId, { tenant: 'acme', ...options }));

describe('list', () => {
  it('emits one page exactly as the service sends it', async () => {
    expect(await list({ page: 6 }, 'national-2026')).toEqual({
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
    await list({ tenant: 'globex' });
    await list({ tenant: 'globex', page: 2, itemsPerPage: 7 });
    const own = { tenantKey: 'globex', headerTenantKey: 'globex', status: 200 };
    expect(lists()).toMatchObject([
      { ...own, query: { Page: '1', ItemsPerPage: '50' }, headers: { accept: 'application/json' } },
      { ...own, query: { Page: '2', ItemsPerPage: '7' } },
    ]);
  });

  it('sends one request for each call, equal ones too, and none before the subscription', async () => {
    const call = host.exhibitors.list('regional-2026', { tenant: 'acme' });
    await aWhile();
    expect(lists()).toHaveLength(0);
    await Promise.all([firstValueFrom(call), firstValueFrom(call)]);
    expect(lists()).toHaveLength(2);
  });

  it.each<[string, ListOptions, eventId: string]>([
    ['eventId', {}, '..'],
    ['eventId', {}, '..%2Fadmin'],
    ['eventId', {}, ''],
    ['page', { page: 0 }, 'regional-2026'],
    ['itemsPerPage', { itemsPerPage: 51 }, 'regional-2026'],
    ['deadline', { deadline: 0 }, 'regional-2026'],
  ])('refuses a wrong %s through the Observable and sends nothing', async (name, options, eventId) => {
    const failure = { code: 'invalid_argument', message: expect.stringContaining(name) };
    await expect(list(options, eventId)).rejects.toMatchObject(failure);
    expect(sandbox.requests).toHaveLength(0);
  });

  it('uses the tenant of a bound view only', async () => {
    const initech = host.exhibitors.forTenant('initech');
    await firstValueFrom(initech.list('regional-2026'));
    const other = firstValueFrom(initech.list('regional-2026', { tenant: 'acme' }));
    await expect(other).rejects.toMatchObject({ code: 'invalid_argument' });
    expect(lists().map(({ headerTenantKey }) => headerTenantKey)).toEqual(['initech']);
  });

  it.each([1, 20])('replaces a refused token once, for %i calls', async (calls) => {
    await list();
    sandbox.revokeTokens('acme');
    sandbox.clearRequests();
    const pages = await Promise.all(Array.from({ length: calls }, () => list()));
    expect(pages).toHaveLength(calls);
    const seen = sandbox.requests.map(({ operation, status }) => `${operation} ${status}`);
    const answered = Array<string>(calls).fill('list 200');
    const refused = Array<string>(calls).fill('list 401');
    expect(seen.toSorted()).toEqual([...answered, ...refused, 'token 200']);
  });

  it('sends nothing where the signal is already aborted, and leaves no unhandled rejection', async () => {
    const unhandled = await unhandledIn(async () => {
      for (const tenant of ['acme', 'umbrella']) {
        const call = list({ tenant, signal: AbortSignal.abort() });
        await expect(call).rejects.toMatchObject({ code: 'aborted' });
      }
      await aWhile();
    });
    expect([sandbox.requests, unhandled]).toEqual([[], []]);
  });

  it.each<[string, Answer]>([
    ['an array', () => []],
    ['a wrapper without paging information', () => ({ data: [] })],
    ['no content', ({ response }) => void response.writeHead(204).end()],
  ])('is malformed where the reply is %s', async (_name, answer) => {
    const { exhibitors, service, tenant } = against(answer);
    const failure = { code: 'malformed_response', tenant };
    await expect(firstValueFrom(exhibitors.list('e'))).rejects.toMatchObject(failure);
    expect(service.urls).toHaveLength(1);
  });
});

describe('exhibitorSchema', () => {
  const record = z.object({ id: z.string(), name: z.string().transform((name) => ({ shown: name })) });
  const never = z.object({}).refine(() => new Promise<boolean>(() => {}));

  it('checks every record, and its output is what the host gets', async () => {
    const tenant = sandbox.tenantOptions('acme');
    const typed = await startRestHost<z.output<typeof record>>({ tenant, exhibitorSchema: record });
    const [first] = sandbox.exhibitors('boutique-2026', 'acme');
    const expected = { id: first?.id, name: { shown: first?.name } };
    const page = await firstValueFrom(typed.exhibitors.list('boutique-2026'));
    expect([page.data[0], page.paginationMetadata.totalCount]).toEqual([expected, 7]);
    const streamed = await lastValueFrom(typed.exhibitors.stream('boutique-2026').pipe(toArray()));
    expect(streamed[0]).toEqual(expected);
    const [found] = await firstValueFrom(typed.exhibitors.lookup('boutique-2026', 'olga.one@example.com'));
    expect(found?.name).toHaveProperty('shown');
    await typed.close();
  });

  it('may be asynchronous, within the deadline', async () => {
    const typed = await startRestHost({ tenant: sandbox.tenantOptions('acme'), exhibitorSchema: never });
    const call = firstValueFrom(typed.exhibitors.list('boutique-2026', { deadline: 300 }));
    await expect(call).rejects.toMatchObject({ code: 'deadline_exceeded' });
    await typed.close();
  });
});

describe('error.attempts', () => {
  it.each<[number | 'nothing', string, attempts: number]>([
    [503, 'service_unavailable', 4],
    [429, 'rate_limited', 4],
    [401, 'access_denied', 2],
    [403, 'access_denied', 2],
    [400, 'request_rejected', 2],
    ['nothing', 'deadline_exceeded', 2],
  ])('counts the request before a 401 as well, where %p follows', async (next, code, attempts) => {
    const answer: Answer = ({ count, response }) => {
      if (count === 1 || next !== 'nothing') {
        sendJson(response, {}, count === 1 ? 401 : Number(next), { 'retry-after': '0' });
      }
    };
    const { exhibitors, service } = against(answer, next === 'nothing' ? { deadline: 200 } : {});
    await expect(firstValueFrom(exhibitors.list('event'))).rejects.toMatchObject({ code, attempts });
    expect(service.urls).toHaveLength(attempts);
    await expect(firstValueFrom(exhibitors.lookup('event', 'olga@example.com'))).rejects.toMatchObject({
      code,
    });
  });
});
