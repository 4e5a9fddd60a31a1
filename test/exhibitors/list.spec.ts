import { runInNewContext } from 'node:vm';
import { beforeEach, describe, expect, it } from '@jest/globals';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import { firstValueFrom, lastValueFrom, toArray } from 'rxjs';
import { z } from 'zod';
import { TokenService, type Exhibitor, type ListOptions } from '../../lib/index.js';
import { handMadeCases, startRestHost, threeTenants, wrapper, type Answer } from './rest-host.js';
import { clockOf } from '../support/clock.js';
import { useHost, useSandbox } from '../support/lifetimes.js';
import { unhandledIn } from '../support/messages.js';
import { sendJson } from '../support/server.js';
import { aWhile, eventually } from '../support/wait.js';
import { traced } from '../support/traced-requests.js';

const sandbox = await useSandbox();
const host = useHost(() => startRestHost(threeTenants(sandbox)));
const { against, context } = handMadeCases();
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

  it('uses the tenant of a bound view only', async () => {
    const initech = host.exhibitors.forTenant('initech');
    await firstValueFrom(initech.list('regional-2026'));
    const other = firstValueFrom(initech.list('regional-2026', { tenant: 'acme' }));
    await expect(other).rejects.toMatchObject({ code: 'invalid_argument' });
    const text = firstValueFrom(initech.list('regional-2026', 'page=2' as ListOptions));
    await expect(text).rejects.toMatchObject({ code: 'invalid_argument' });
    expect(lists().map(({ headerTenantKey }) => headerTenantKey)).toEqual(['initech']);
  });

  it.each([1, 20])('replaces a refused token once, for %i calls', async (calls) => {
    await list();
    // A younger one is not replaced because of a 401.
    clockOf(host.context).skip(10_000);
    sandbox.revokeTokens('acme');
    sandbox.clearRequests();
    const pages = await Promise.all(Array.from({ length: calls }, () => list()));
    expect(pages).toHaveLength(calls);
    const seen = sandbox.requests.map(({ operation, status }) => `${operation} ${status}`);
    const answered = Array<string>(calls).fill('list 200');
    const refused = Array<string>(calls).fill('list 401');
    expect(seen.toSorted()).toEqual([...answered, ...refused, 'token 200']);
  });

  it.each<[next: number | 'nothing', code: string, attempts: number]>([
    [503, 'service_unavailable', 4],
    [401, 'access_denied', 2],
    ['nothing', 'aborted', 2],
  ])('counts the request before a 401 as well, where %p follows', async (next, code, attempts) => {
    const { exhibitors, service, tenant } = against(({ count, response }) => {
      if (count === 1 || next !== 'nothing') {
        sendJson(response, {}, count === 1 ? 401 : Number(next), { 'retry-after': '0' });
      }
    });
    await context().get(TokenService).getToken({ tenant });
    clockOf(context()).skip(10_000);
    const caller = new AbortController();
    const failure = expect(
      firstValueFrom(exhibitors.list('event', { signal: caller.signal })),
    ).rejects.toMatchObject({ code, attempts });
    if (next === 'nothing') {
      await eventually(() => service.urls.length === attempts);
      caller.abort();
    }
    await failure;
  });

  it('sends nothing where the signal is already aborted, like lookup, and leaves no unhandled rejection', async () => {
    const unhandled = await unhandledIn(async () => {
      const signal = AbortSignal.abort();
      const options = { tenant: 'acme', signal, fresh: true };
      for (const call of [
        list({ signal }),
        list({ tenant: 'umbrella', signal }),
        firstValueFrom(host.exhibitors.lookup('regional-2026', 'olga.one@example.com', options)),
      ]) {
        await expect(call).rejects.toMatchObject({ code: 'aborted' });
      }
      await aWhile();
    });
    expect([sandbox.requests, unhandled]).toEqual([[], []]);
  });
});

const malformed = (message: string) => ({ code: 'malformed_response', message });

describe('the reply to a list', () => {
  const counts = { currentPage: 1, totalCount: 2, totalPages: 1, itemsPerPage: 50 };
  const metadata = { ...counts, hasPreviousPage: false, hasNextPage: false };
  const withMetadata = (changed: object) => ({ paginationMetadata: { ...metadata, ...changed }, data: [] });
  const readFrom = async (answer: Answer) => firstValueFrom(against(answer).exhibitors.list('e'));

  it.each([
    { paginationMetadata: { ...metadata, cursor: 'x' }, data: [{ id: 'a' }], took: 3 },
    { paginationMetadata: counts, data: [] },
  ])('may have further members, and lack the two booleans: %j', async (body) => {
    expect(await readFrom(() => body)).toEqual(body);
  });

  const noCount = (name: string) => `paginationMetadata.${name} is not a whole number of 0 or more`;
  it.each<[unknown, string]>([
    [null, 'the reply is not an object'],
    ['text', 'the reply is not an object'],
    [[], 'the reply is not an object'],
    [{ data: [] }, 'paginationMetadata is not an object'],
    [{ paginationMetadata: [], data: [] }, 'paginationMetadata is not an object'],
    [{ paginationMetadata: metadata }, 'data is not an array'],
    [{ paginationMetadata: metadata, data: {} }, 'data is not an array'],
    [withMetadata({ totalCount: '2' }), noCount('totalCount')],
    [withMetadata({ totalPages: -1 }), noCount('totalPages')],
    [withMetadata({ currentPage: 1.5 }), noCount('currentPage')],
    [withMetadata({ itemsPerPage: 1e300 }), noCount('itemsPerPage')],
    [withMetadata({ hasNextPage: 'yes' }), 'paginationMetadata.hasNextPage is not true or false'],
  ])('is malformed where it is %j', async (body, problem) => {
    const failure = malformed(`not a page of exhibitors: ${problem}`);
    await expect(readFrom(({ response }) => sendJson(response, body))).rejects.toMatchObject(failure);
  });

  it('is malformed where it has no content', async () => {
    const failure = malformed('not a page of exhibitors: the reply is not an object');
    const empty = readFrom(({ response }) => void response.writeHead(204).end());
    await expect(empty).rejects.toMatchObject(failure);
  });

  it.each([[null], ['text'], [7], [[]]])('has records that are objects, and not %j', async (row) => {
    const reading = readFrom(() => ({ ...wrapper(1, 0, 2), data: [{ id: 'a' }, row] }));
    await expect(reading).rejects.toMatchObject(malformed('data.1 is not an object'));
  });
});

describe('exhibitorSchema', () => {
  let validate: StandardSchemaV1<unknown, Exhibitor>['~standard']['validate'];
  const { against: typed } = handMadeCases({
    exhibitorSchema: { '~standard': { version: 1, vendor: 'test', validate: (row) => validate(row) } },
  });
  /** A service with these rows, whose records are checked with this schema. */
  const serving = (rows: object[], schema: typeof validate) => {
    validate = schema;
    const page = { ...wrapper(1, 0, rows.length), data: rows };
    return typed(({ url }) => (url.includes('contactEmail') ? rows : page)).exhibitors;
  };
  const listOf = async (rows: object[], schema: typeof validate, options: ListOptions = {}) =>
    (await firstValueFrom(serving(rows, schema).list('e', options))).data;

  it('checks every record, and its output is what the host gets', async () => {
    const record = z.object({ name: z.string().transform((name) => ({ shown: name })) });
    const exhibitors = serving([{ id: 1, name: 'a' }], record['~standard'].validate);
    const output = [{ name: { shown: 'a' } }];
    expect(await firstValueFrom(exhibitors.list('e'))).toEqual({ ...wrapper(1, 0, 1), data: output });
    expect(await lastValueFrom(exhibitors.stream('e').pipe(toArray()))).toEqual(output);
    expect(await firstValueFrom(exhibitors.lookup('e', 'olga@example.com'))).toEqual(output);
  });

  it('may be asynchronous, within the deadline', async () => {
    const later: typeof validate = async (row) =>
      Object.hasOwn(Object(row), 'bad') ? { issues: [{ message: 'no' }] } : { value: Object(row) };
    await expect(listOf([{ id: 'a' }], later)).resolves.toEqual([{ id: 'a' }]);
    const refused = malformed('data.1 does not fit exhibitorSchema');
    await expect(listOf([{ id: 'a' }, { bad: 1 }], later)).rejects.toMatchObject(refused);
    const never = listOf([{ id: 'a' }], () => new Promise(() => {}), { deadline: 300 });
    await expect(never).rejects.toMatchObject({ code: 'deadline_exceeded' });
  });

  it('that keeps nothing of a record refuses it', async () => {
    const schema = z.object({ a: z.string().optional() })['~standard'].validate;
    const refused = malformed('data.1 is made nothing by exhibitorSchema');
    await expect(listOf([{ a: 'x' }, { b: 1 }], schema)).rejects.toMatchObject(refused);
  });

  const byName = z.object({ a: z.object({ b: z.number() }) })['~standard'].validate;
  const byParts: typeof validate = () => ({ issues: [{ message: 'no', path: ['a', { key: 'b' }] }] });
  const byAddress = z.object({ a: z.record(z.string(), z.number()) })['~standard'].validate;
  it.each<[string, typeof validate, object, path: string]>([
    ['by the path of the first issue', byName, { a: { b: 'x' } }, 'a.b'],
    ['by the keys of the parts of a path', byParts, { a: { b: 1 } }, 'a.b'],
    ['without a key that is a value itself', byAddress, { a: { 'sam@example.com': 'x' } }, 'a.*'],
  ])('reports what it refuses %s, without its values', async (_how, schema, row, path) => {
    const failure = malformed(`data.0.${path} does not fit exhibitorSchema`);
    await expect(listOf([row], schema)).rejects.toMatchObject(failure);
  });

  const ofHost = new RangeError('of the host');
  const throws: typeof validate = () => {
    throw ofHost;
  };
  it.each<[string, typeof validate]>([
    ['throws', throws],
    ['rejects', () => Promise.reject(ofHost)],
  ])('that %s fails the call with its error as the cause', async (_what, schema) => {
    const failure = { ...malformed('data.0 made exhibitorSchema throw'), cause: ofHost };
    await expect(listOf([{ id: 'a' }], schema)).rejects.toMatchObject(failure);
  });

  it('leaves no unhandled rejection where a record is refused before another one is checked', async () => {
    const schema: typeof validate = (row) =>
      Object.hasOwn(Object(row), 'late')
        ? Promise.reject(new Error('late'))
        : { issues: [{ message: 'no' }] };
    const unhandled = await unhandledIn(async () => {
      const refused = malformed('data.1 does not fit exhibitorSchema');
      await expect(listOf([{ late: 1 }, { soon: 1 }], schema)).rejects.toMatchObject(refused);
      await aWhile();
    });
    expect(unhandled).toEqual([]);
  });

  it('may make records of lookups that refer to themselves: they are frozen to the last plain member', async () => {
    const since = new Date(0);
    const exhibitors = serving([{ halls: ['A'] }], (row) => {
      // As in a host that Jest tests: what Node creates is not of the realm of the test.
      const size: unknown = runInNewContext('({ width: 3 })');
      const record = { ...Object(row), since, size, self: {} };
      record.self = record;
      return { value: record };
    });
    const [record] = await firstValueFrom(exhibitors.lookup('e', 'olga@example.com'));
    const members = [record, record?.['halls'], record?.['size'], since];
    expect(members.map(Object.isFrozen)).toEqual([true, true, true, false]);
  });
});
