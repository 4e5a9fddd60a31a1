/** Services that contradict themselves: a stream fails with pagination_drift, or continues and still ends. */
import { describe, expect, it } from '@jest/globals';
import { lastValueFrom, map, toArray, type Observable } from 'rxjs';
import { PaginationDriftError, type StreamOptions } from '../../lib/index.js';
import { handMadeCases, honest, wrapper, type Answer, type PageRequest } from './rest-host.js';
import { messagesOn } from '../support/messages.js';
import { sendJson } from '../support/server.js';
import { eventually } from '../support/wait.js';

const { against } = handMadeCases<{ id: number }>();

const all = <V>(values: Observable<V>) => lastValueFrom(values.pipe(toArray()));
const rows = (count: number) => Array.from({ length: count }, (_, id) => ({ id }));

/** Correct pages, except the given ones. */
const but =
  (total: number, lies: Record<number, (request: PageRequest) => unknown>): Answer =>
  (request) =>
    (lies[request.page] ?? (({ page }) => honest(page, 50, total)))(request);

type Lie = [name: string, page: number, reply: unknown, field: string, expected: unknown, seen: unknown];

/** What a service of 200 exhibitors answers to one page, and the breach that shows. */
const LIES: Lie[] = [
  ['answers another page than the one asked for', 3, honest(2, 50, 200), 'currentPage', 3, 2],
  ['grows', 3, wrapper(3, 50, 201), 'totalCount', 200, 201],
  ['shrinks', 4, wrapper(4, 49, 199), 'totalCount', 200, 199],
  ['changes its number of pages', 2, wrapper(2, 50, 200, 50, { totalPages: 5 }), 'totalPages', 4, 5],
  ['changes its page size', 2, wrapper(2, 40, 200, 50, { itemsPerPage: 40 }), 'data.length', 50, 40],
  ['reports another page size', 2, wrapper(2, 50, 200, 50, { itemsPerPage: 40 }), 'itemsPerPage', 50, 40],
  ['has a short last page', 4, wrapper(4, 49, 200), 'data.length', 50, 49],
  ['has no page size', 1, wrapper(1, 0, 200, 50, { itemsPerPage: 0 }), 'totalPages', -1, 4],
  ['sends more than a page holds', 2, wrapper(2, 51, 200), 'data.length', 50, 51],
  ['sends an empty page before the end', 3, wrapper(3, 0, 200), 'data.length', 50, 0],
  ['counts pages that do not fit', 1, wrapper(1, 50, 200, 50, { totalPages: 3 }), 'totalPages', 4, 3],
  ['has exhibitors in an empty event', 1, wrapper(1, 2, 0), 'data.length', 0, 2],
  [
    'repeats the rows of the page before under a new number',
    3,
    { ...wrapper(3, 50, 200), data: honest(2, 50, 200).data },
    'data',
    'other rows',
    'the rows of page 2',
  ],
];

describe('a service that contradicts itself', () => {
  it.each(LIES)(
    'fails with pagination_drift where it %s',
    async (_name, page, reply, field, expected, seen) => {
      const { exhibitors, tenant, service } = against(but(200, { [page]: () => reply }));
      const breach = { field, expected, seen, page };
      const read: number[] = [];
      const reading = all(
        exhibitors
          .pages('e')
          .pipe(map(({ paginationMetadata }) => read.push(paginationMetadata.currentPage))),
      );
      await expect(reading).rejects.toMatchObject({
        name: 'PaginationDriftError',
        code: 'pagination_drift',
        tenant,
        breach,
        lastGoodPage: page - 1,
      });
      expect(read).toEqual(Array.from({ length: page - 1 }, (_, index) => index + 1));
      // With drift ignored, it is read to the end and reported.
      const messages = await messagesOn('nestjs-exhibitor:drift', () =>
        all(exhibitors.stream('ignored', { onDrift: 'ignore' })),
      );
      expect(messages[0]).toMatchObject({ tenant, ...breach });
      expect(service.urls.filter((url) => url.includes('ignored')).length).toBeLessThanOrEqual(4);
    },
  );
});

it('each breach of a page is reported where drift is ignored', async () => {
  const { exhibitors, tenant } = against(but(200, { 2: () => wrapper(2, 51, 201, 50, { totalPages: 5 }) }));
  const messages = await messagesOn('nestjs-exhibitor:drift', () =>
    all(exhibitors.stream('e', { onDrift: 'ignore' })),
  );
  expect(messages).toEqual([
    { tenant, page: 2, field: 'totalCount', expected: 200, seen: 201 },
    { tenant, page: 2, field: 'totalPages', expected: 4, seen: 5 },
    { tenant, page: 2, field: 'data.length', expected: 50, seen: 51 },
  ]);
});

describe('a stream ends', () => {
  const ignore: StreamOptions = { onDrift: 'ignore' };

  it('although the service always reports a next page', async () => {
    const { exhibitors, service } = against(({ page }) => {
      const { paginationMetadata, data } = honest(page, 50, 120);
      return { paginationMetadata: { ...paginationMetadata, hasNextPage: true }, data };
    });
    await expect(all(exhibitors.stream('e'))).resolves.toEqual(rows(120));
    expect(service.urls).toHaveLength(3);
  });

  it('although the event grows with every page and drift is ignored', async () => {
    const { exhibitors, service } = against(({ page }) => wrapper(page, 50, (page + 1) * 50));
    await expect(all(exhibitors.pages('e', ignore))).resolves.toHaveLength(2);
    expect(service.urls).toHaveLength(2);
  });

  it.each<[string, Answer]>([
    ['empty pages', ({ page }) => wrapper(page, page === 1 ? 3 : 0, 3, 50, { totalPages: 1e9 })],
    ['its last page for ever', () => wrapper(1, 3, 3, 50, { totalPages: 1e9 })],
  ])(
    'although the service claims a billion pages and serves %s, with drift ignored',
    async (_name, answer) => {
      const { exhibitors, service } = against(answer);
      await expect(all(exhibitors.stream('e', ignore))).resolves.toHaveLength(3);
      expect(service.urls.length).toBeLessThan(10);
    },
  );

  it.each([{ totalPages: 0 }, { totalPages: 1 }, { totalPages: 0, currentPage: 0 }])(
    'after one empty page where the event is empty: %j',
    async (metadata) => {
      const { exhibitors, service } = against(() => wrapper(1, 0, 0, 50, metadata));
      await expect(all(exhibitors.pages('e'))).resolves.toEqual([wrapper(1, 0, 0, 50, metadata)]);
      await expect(all(exhibitors.stream('e'))).resolves.toEqual([]);
      expect(service.urls).toHaveLength(2);
    },
  );
});

describe('a reading that starts beyond the end', () => {
  const COUNT = 120;
  /** How a service answers a page that it does not have. */
  const ENDINGS: [string, (request: PageRequest) => unknown][] = [
    ['an empty page', ({ page }) => wrapper(page, 0, COUNT)],
    [
      'an empty page, numbered as the last one',
      ({ page }) => wrapper(page, 0, COUNT, 50, { currentPage: 3 }),
    ],
    ['the last page again', () => wrapper(3, 20, COUNT)],
    ['the last page again, with the number asked for', ({ page }) => ({ ...wrapper(page, 20, COUNT) })],
    ['400', ({ response }) => void response.writeHead(400).end()],
    ['404', ({ response }) => void response.writeHead(404).end()],
  ];
  const ending =
    (answer: (request: PageRequest) => unknown): Answer =>
    (request) =>
      request.page > 3 ? answer(request) : honest(request.page, 50, COUNT);
  const asked = (urls: readonly string[]) => urls.map((url) => Number(/Page=(\d+)/.exec(url)?.[1]));

  it.each(ENDINGS)('completes without a page where the service answers %s', async (name, answer) => {
    const { exhibitors, service } = against(ending(answer));
    const size = { totalCount: COUNT, itemsPerPage: 50 };
    for (const onDrift of ['error', 'ignore'] as const) {
      const options: StreamOptions = { startPage: 5, onDrift, expect: size };
      const messages = await messagesOn('nestjs-exhibitor:drift', async () => {
        await expect(all(exhibitors.pages('e', options))).resolves.toEqual([]);
        await expect(all(exhibitors.stream('e', { startPage: 4, onDrift }))).resolves.toEqual([]);
        await expect(exhibitors.iterate('e', options).next()).resolves.toMatchObject({ done: true });
        await expect(exhibitors.iteratePages('e', options).next()).resolves.toMatchObject({ done: true });
      });
      expect(messages).toEqual([]);
    }
    const each = name.startsWith('4') ? [5, 1, 4, 1, 5, 1, 5, 1] : [5, 4, 5, 5];
    expect(asked(service.urls)).toEqual([...each, ...each]);
  });

  it.each(ENDINGS)(
    'fails where the event has another size and the service answers %s',
    async (_name, answer) => {
      const { exhibitors } = against(ending(answer));
      const at = (startPage: number, size: NonNullable<StreamOptions['expect']>) =>
        all(exhibitors.pages('e', { startPage, onDrift: 'ignore', expect: size }));
      for (const startPage of [1, 4]) {
        await expect(at(startPage, { totalCount: 121, itemsPerPage: 50 })).rejects.toMatchObject({
          name: 'PaginationDriftError',
          breach: { field: 'totalCount', expected: 121, seen: 120, page: startPage },
          lastGoodPage: 0,
        });
        await expect(at(startPage, { totalCount: 120, itemsPerPage: 40 })).rejects.toMatchObject({
          breach: { field: 'itemsPerPage', expected: 40, seen: 50, page: startPage },
        });
      }
      await expect(at(3, { totalCount: 120, itemsPerPage: 50 })).resolves.toHaveLength(1);
    },
  );

  it('fails with not_found where there is no such event, and as page 1 does where that fails', async () => {
    for (const [first, others, code] of [
      [404, 404, 'not_found'],
      [404, 400, 'not_found'],
      [403, 400, 'access_denied'],
      [503, 404, 'service_unavailable'],
    ] as const) {
      const { exhibitors } = against(({ page, response }) => {
        response.writeHead(page === 1 ? first : others, { 'retry-after': '0' }).end();
      });
      await expect(all(exhibitors.pages('e', { startPage: 4 }))).rejects.toMatchObject({ code });
    }
  });

  it('fails as the refused page where page 1 says that the event has it', async () => {
    const { exhibitors, service } = against(
      but(200, { 4: ({ response }) => void response.writeHead(400).end() }),
    );
    const refused = { code: 'request_rejected', status: 400 };
    await expect(all(exhibitors.pages('e', { startPage: 4 }))).rejects.toMatchObject(refused);
    expect(asked(service.urls)).toEqual([4, 1]);
    await expect(all(exhibitors.pages('e', { startPage: 3 }))).rejects.toMatchObject(refused);
    expect(asked(service.urls)).toEqual([4, 1, 3, 4, 1]);
  });

  it.each([400, 404])(
    'fails with pagination_drift where the event shrinks and its last page is %i',
    async (status) => {
      const shrinking: Answer = ({ count, page, response }) => {
        const [total, pages] = count === 1 ? [120, 3] : [90, 2];
        return page > pages ? void response.writeHead(status).end() : honest(page, 50, total);
      };
      const { exhibitors } = against(shrinking);
      await expect(all(exhibitors.pages('e', { startPage: 2, prefetch: 1 }))).rejects.toMatchObject({
        breach: { field: 'totalCount', expected: 120, seen: 90, page: 3 },
        lastGoodPage: 2,
      });
      const again = against(shrinking);
      // As where the service answers an empty page.
      const ignoring = all(again.exhibitors.pages('e', { startPage: 2, prefetch: 1, onDrift: 'ignore' }));
      await expect(ignoring).resolves.toMatchObject([
        {},
        { paginationMetadata: { currentPage: 3 }, data: [] },
      ]);
    },
  );

  it('is read again by a snapshot where the event shrinks and its last page is 404', async () => {
    const { exhibitors, service } = against(({ count, page, response }) => {
      const [total, pages] = count < 3 ? [120, 3] : [90, 2];
      return page > pages ? void response.writeHead(404).end() : honest(page, 50, total);
    });
    const snapshot = lastValueFrom(exhibitors.snapshot('e', { prefetch: 1 }));
    await expect(snapshot).resolves.toMatchObject({ totalCount: 90, restarts: 1 });
    expect(asked(service.urls)).toEqual([1, 2, 3, 1, 1, 2]);
  });

  it('sends nothing more where it is left while the page is refused', async () => {
    const refused: PageRequest[] = [];
    const { exhibitors, service } = against((request) => void refused.push(request));
    const items = exhibitors.iteratePages('e', { startPage: 4 });
    const waiting = items.next();
    await eventually(() => refused.length === 1);
    refused[0]?.response.writeHead(404).end();
    await eventually(() => refused.length === 2);
    expect(asked(service.urls)).toEqual([4, 1]);
    await items.return?.();
    await expect(waiting).resolves.toMatchObject({ done: true });
    await eventually(() => service.aborted === 1);
  });

  it.each<[string, Answer, object]>([
    [
      'neither empty nor the last one',
      ({ page }) => wrapper(page, 7, COUNT),
      { field: 'data.length', expected: 0, seen: 7 },
    ],
    ['page 1', () => wrapper(1, 50, COUNT), { field: 'currentPage', expected: 4, seen: 1 }],
    [
      'of an event whose numbers of pages and exhibitors differ',
      ({ page }) => wrapper(page, 0, COUNT, 50, { totalPages: 2 }),
      { field: 'totalPages', expected: 3, seen: 2 },
    ],
  ])('fails with pagination_drift where the page is %s', async (_name, answer, breach) => {
    const { exhibitors } = against(answer);
    const reading = all(exhibitors.pages('e', { startPage: 4 }));
    await expect(reading).rejects.toMatchObject({ code: 'pagination_drift', breach });
  });
});

describe('a service that clamps the page size', () => {
  it('is read with the page size that it grants', async () => {
    const { exhibitors, service } = against(({ page, itemsPerPage }) =>
      honest(page, Math.min(itemsPerPage, 20), 90),
    );
    await expect(all(exhibitors.stream('e'))).resolves.toEqual(rows(90));
    const sizes = service.urls.map((url) => new URL(url, 'http://x').searchParams.get('ItemsPerPage'));
    expect(sizes).toEqual(['50', '20', '20', '20', '20']);
  });

  it('is read where the last page reports its own size, and where two pages share a row', async () => {
    const { exhibitors } = against(
      but(120, {
        2: () => ({ ...wrapper(2, 50, 120), data: [{ id: 0 }, ...honest(2, 50, 120).data.slice(1)] }),
        3: () => wrapper(3, 20, 120, 50, { itemsPerPage: 20 }),
      }),
    );
    await expect(all(exhibitors.stream('e'))).resolves.toHaveLength(120);
  });

  it('is read where it always sends 50', async () => {
    const { exhibitors } = against(({ page }) => honest(page, 50, 120));
    const streamed = all(exhibitors.stream('e', { itemsPerPage: 10 }));
    await expect(streamed).resolves.toEqual(rows(120));
  });
});

describe('a failure while reading', () => {
  it('is reported after the pages before it, and cancels the pages behind it', async () => {
    const answers: Record<number, (request: PageRequest) => unknown> = {
      1: () => honest(1, 50, 1_000),
      2: ({ response }) => void setTimeout(() => sendJson(response, honest(2, 50, 1_000)), 200),
      3: ({ response }) => void response.writeHead(403).end(),
    };
    const { exhibitors, service } = against((request) => answers[request.page]?.(request));
    const seen: number[] = [];
    const reading = all(
      exhibitors.pages('e').pipe(map(({ paginationMetadata }) => seen.push(paginationMetadata.currentPage))),
    );
    await expect(reading).rejects.toMatchObject({ code: 'access_denied' });
    expect(seen).toEqual([1, 2]);
    expect(service.urls).toHaveLength(5);
    await eventually(() => service.aborted === 2);
  });

  it('is a PaginationDriftError that names the page', async () => {
    const { exhibitors } = against(but(200, { 3: () => wrapper(3, 50, 201) }));
    const error: unknown = await all(exhibitors.stream('e')).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(PaginationDriftError);
    expect(String(error)).toBe('PaginationDriftError: page 3: totalCount is 201, expected 200');
  });
});
