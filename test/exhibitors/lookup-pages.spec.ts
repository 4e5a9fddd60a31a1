/** Lookups that the service answers in several pages: read to their end, or refused; never a part taken for all. */
import { afterEach, describe, expect, it } from '@jest/globals';
import { firstValueFrom } from 'rxjs';
import { z } from 'zod';
import { sendJson } from '../support/server.js';
import { honest, startRestHost, startService, wrapper, type Answer, type PageRequest } from './rest-host.js';
import type { OtherOptions } from '../support/module-options.js';

const SAM = 'sam.several@example.com';
const PATH = '/api/v1/exhibitor/event/e/contactEmail/sam.several%40example.com';

const endings: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0)) {
    await end();
  }
});

async function against(answer: Answer, options: OtherOptions = {}) {
  const service = await startService(answer);
  const { exhibitors, close } = await startRestHost({ tenant: service.tenant, ...options });
  endings.push(close, service.stop);
  const find = (call: object = {}) => firstValueFrom(exhibitors.lookup('e', SAM, call));
  return { service, find };
}

/** Pages of `size` records, of `total`; a request without a query is for page 1. */
const paged =
  (total: number, size: number, lies: Record<number, (request: PageRequest) => unknown> = {}): Answer =>
  (request) => {
    const page = request.page === 0 ? 1 : request.page;
    const lie = lies[page];
    return lie === undefined ? honest(page, size, total) : lie(request);
  };

const ids = (records: readonly unknown[]) =>
  z
    .array(z.object({ id: z.number() }))
    .parse(records)
    .map(({ id }) => id);
const upTo = (count: number) => Array.from({ length: count }, (_, index) => index);

describe('a lookup in several pages', () => {
  it('is read to its end with the page size of the first reply', async () => {
    const { service, find } = await against(paged(7, 3));
    expect(ids(await find())).toEqual(upTo(7));
    expect(service.urls).toEqual([PATH, `${PATH}?Page=2&ItemsPerPage=3`, `${PATH}?Page=3&ItemsPerPage=3`]);
  });

  it('is cached as a whole', async () => {
    const { service, find } = await against(paged(7, 3));
    const first = await find();
    expect(await find()).toBe(first);
    expect(service.urls).toHaveLength(3);
  });

  it('may have 20 pages', async () => {
    const { find } = await against(paged(40, 2));
    expect(ids(await find())).toEqual(upTo(40));
  });

  it('is malformed with more than 20 pages, and nothing further is requested', async () => {
    const { service, find } = await against(paged(41, 2));
    await expect(find()).rejects.toMatchObject({
      code: 'malformed_response',
      message: 'not the exhibitors of a contact: more than 20 pages',
    });
    expect(service.urls).toHaveLength(1);
  });

  it.each<[string, Answer]>([
    ['repeats its first page', () => honest(1, 2, 6)],
    [
      'repeats the rows of its first page',
      paged(6, 2, { 2: () => ({ ...honest(2, 2, 6), data: honest(1, 2, 6).data }) }),
    ],
    ['changes its count', paged(6, 2, { 3: () => wrapper(3, 2, 7, 2) })],
    ['changes its number of pages', paged(6, 2, { 2: () => wrapper(2, 2, 6, 2, { totalPages: 4 }) })],
    ['answers a page with too few records', paged(6, 2, { 2: () => wrapper(2, 1, 6, 2) })],
    ['answers an announced page with 404', paged(6, 2, { 2: ({ response }) => sendJson(response, {}, 404) })],
    [
      'says that its last page is not the last',
      paged(6, 2, { 3: () => wrapper(3, 2, 6, 2, { hasNextPage: true }) }),
    ],
    ['starts with a later page', () => honest(2, 2, 4)],
    ['counts more records than its pages hold', () => wrapper(1, 2, 9, 50, { totalPages: 1 })],
    ['says that its only page is not the last', () => wrapper(1, 2, 2, 50, { hasNextPage: true })],
  ])('is pagination_drift where the service %s, and is not cached', async (_name, answer) => {
    const { service, find } = await against(answer);
    await expect(find()).rejects.toMatchObject({ code: 'pagination_drift', tenant: 'default' });
    const before = service.urls.length;
    await expect(find()).rejects.toMatchObject({ code: 'pagination_drift' });
    expect(service.urls.length).toBe(2 * before);
  });

  it.each<[string, Answer]>([
    ['a further page that is no page', paged(6, 2, { 2: () => [{ id: 2 }, { id: 3 }] })],
    ['unusable counts that say there is more', () => wrapper(1, 2, 6, 2, { totalCount: '6' })],
    [
      'only a flag that says there is more',
      () => ({ paginationMetadata: { hasNextPage: true }, data: [{ id: 1 }] }),
    ],
    ['no data but a count', () => ({ ...wrapper(1, 0, 6, 2), data: null })],
  ])('is malformed with %s', async (_name, answer) => {
    const { find } = await against(answer);
    await expect(find()).rejects.toMatchObject({ code: 'malformed_response' });
  });

  it.each<[string, object]>([
    ['no metadata', { paginationMetadata: null }],
    ['empty metadata', { paginationMetadata: {} }],
    ['counts as text', { paginationMetadata: { currentPage: '1', totalCount: '2', totalPages: '1' } }],
    ['zeros', { paginationMetadata: { currentPage: 0, totalCount: 0, totalPages: 0, itemsPerPage: 0 } }],
    ['a complete page', wrapper(1, 2, 2)],
  ])('needs no further request where the wrapper is complete: %s', async (_name, body) => {
    const data = [{ id: 0 }, { id: 1 }];
    const { service, find } = await against(() => ({ ...body, data }));
    await expect(find()).resolves.toEqual(data);
    expect(service.urls).toEqual([PATH]);
  });

  it('checks the records of every page with the schema', async () => {
    const exhibitorSchema = z.object({ id: z.number().max(4) });
    const { find } = await against(paged(6, 2), { exhibitorSchema });
    await expect(find()).rejects.toMatchObject({
      code: 'malformed_response',
      message: '5.id does not fit exhibitorSchema',
    });
  });

  it('has one deadline for all its pages', async () => {
    const slow: Answer = (request) => {
      setTimeout(() => sendJson(request.response, paged(12, 2)(request)), 120);
    };
    const { service, find } = await against(slow);
    await expect(find({ deadline: 300 })).rejects.toMatchObject({ code: 'deadline_exceeded' });
    expect(service.urls.length).toBeLessThan(6);
  });
});

describe('an object that looks like an error', () => {
  const optional = z.object({ name: z.string().optional(), message: z.string().optional() });

  it.each<[string, object]>([
    ['a message', { message: 'temporarily unavailable' }],
    ['an OAuth error', { error: 'server_error', error_description: 'try later' }],
    ['errors', { data: null, errors: [{ code: 7 }] }],
    ['problem details', { type: 'about:blank', title: 'Internal Server Error', status: 500 }],
  ])('is no exhibitor: %s', async (_name, body) => {
    const { find } = await against(() => body);
    await expect(find()).rejects.toMatchObject({
      code: 'malformed_response',
      message: 'not the exhibitors of a contact: the reply looks like an error',
    });
  });

  it.each([{ error: 'server_error' }, { name: 'Acme', error: null, message: 'Welcome' }])(
    'is no exhibitor without an id, whatever fields the schema has: %j',
    async (body) => {
      const { find } = await against(() => body, { exhibitorSchema: optional });
      await expect(find()).rejects.toMatchObject({ code: 'malformed_response' });
    },
  );

  it.each<[string, object, OtherOptions]>([
    ['has an id', { id: 7, message: 'Welcome' }, {}],
    ['has an exhibitorId', { exhibitorId: 'b', title: 'Booth', status: 'open' }, {}],
    [
      'has the id of the host',
      { number: '7', message: 'Welcome' },
      { exhibitorId: (one) => String(one['number']) },
    ],
    ['has a title only', { title: 'Booth' }, {}],
  ])('is an exhibitor where it %s', async (_name, body, options) => {
    const { find } = await against(() => body, options);
    await expect(find()).resolves.toHaveLength(1);
  });

  it('is a wrapper where it has paging information beside a message', async () => {
    const { find } = await against(() => ({ ...wrapper(1, 2, 2), message: 'OK', errors: [] }));
    await expect(find()).resolves.toHaveLength(2);
  });

  it('is no exhibitor where the host cannot read its id', async () => {
    const exhibitorId = (record: object): string => {
      throw new TypeError(`of the host: ${typeof record}`);
    };
    const { find } = await against(() => ({ message: 'no' }), { exhibitorId });
    await expect(find()).rejects.toMatchObject({ code: 'malformed_response' });
  });
});
