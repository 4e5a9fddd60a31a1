/** Services that contradict themselves: a stream fails with pagination_drift, or continues and still ends. */
import { describe, expect, it } from '@jest/globals';
import { lastValueFrom, tap, toArray, type Observable } from 'rxjs';
import type { ExhibitorPage, StreamOptions } from '../../lib/index.js';
import { handMadeCases, honest, wrapper, type Answer, type PageRequest } from './rest-host.js';
import { messagesOn } from '../support/messages.js';
import { sendJson } from '../support/server.js';
import { eventually } from '../support/wait.js';

const { against } = handMadeCases<{ id: number }>();

const all = <V>(values: Observable<V>) => lastValueFrom(values.pipe(toArray()));
const rows = (count: number) => Array.from({ length: count }, (_, id) => ({ id }));
const asked = (urls: readonly string[]) => urls.map((url) => Number(/Page=(\d+)/.exec(url)?.[1]));
/** What a service without such a page answers. */
const status =
  (code: number): Answer =>
  ({ response }) =>
    void response.writeHead(code, { 'retry-after': '0' }).end();

/** Fails as expected; answers the numbers of the pages that came before. */
async function pagesUntil(pages: Observable<ExhibitorPage<unknown>>, failure: object): Promise<number[]> {
  const read: number[] = [];
  const reading = all(pages.pipe(tap(({ paginationMetadata }) => read.push(paginationMetadata.currentPage))));
  await expect(reading).rejects.toMatchObject(failure);
  return read;
}

/** Correct pages, except the given ones. */
const but =
  (total: number, lies: Record<number, Answer>): Answer =>
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
      const drift = { name: 'PaginationDriftError', code: 'pagination_drift', tenant };
      const read = await pagesUntil(exhibitors.pages('e'), { ...drift, breach, lastGoodPage: page - 1 });
      expect(read).toEqual([1, 2, 3].slice(0, page - 1));
      // With drift ignored, it is read to the end and reported.
      const messages = await messagesOn('nestjs-exhibitor:drift', () =>
        all(exhibitors.stream('ignored', { onDrift: 'ignore' })),
      );
      expect(messages[0]).toMatchObject({ tenant, ...breach });
      expect(service.urls.filter((url) => url.includes('ignored')).length).toBeLessThanOrEqual(4);
    },
  );

  it('fails with pagination_drift where it repeats its rows, also where the loop empties the pages that it gets', async () => {
    const { exhibitors } = against(but(200, { 2: () => ({ ...wrapper(2, 50, 200), data: rows(50) }) }));
    const emptied = exhibitors.pages('e').pipe(tap(({ data }) => data.splice(0)));
    const breach = { field: 'data', expected: 'other rows', seen: 'the rows of page 1', page: 2 };
    await pagesUntil(emptied, { code: 'pagination_drift', breach });
  });
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
  const size = { totalCount: COUNT, itemsPerPage: 50 };
  /** How a service answers a page that it does not have. */
  const ENDINGS: [string, Answer][] = [
    ['an empty page', ({ page }) => wrapper(page, 0, COUNT)],
    [
      'an empty page, numbered as the last one',
      ({ page }) => wrapper(page, 0, COUNT, 50, { currentPage: 3 }),
    ],
    ['the last page again', () => wrapper(3, 20, COUNT)],
    ['the last page again, with the number asked for', ({ page }) => wrapper(page, 20, COUNT)],
    ['400', status(400)],
    ['404', status(404)],
  ];
  const ending =
    (answer: Answer): Answer =>
    (request) =>
      request.page > 3 ? answer(request) : honest(request.page, 50, COUNT);

  it.each(ENDINGS)('completes without a page where the service answers %s', async (name, answer) => {
    const { exhibitors, service } = against(ending(answer));
    for (const onDrift of ['error', 'ignore'] as const) {
      const options: StreamOptions = { startPage: 5, onDrift, expect: size };
      const messages = await messagesOn('nestjs-exhibitor:drift', async () => {
        await expect(all(exhibitors.pages('e', options))).resolves.toEqual([]);
        await expect(all(exhibitors.stream('e', { startPage: 4, onDrift }))).resolves.toEqual([]);
        await expect(exhibitors.iteratePages('e', options).next()).resolves.toMatchObject({ done: true });
      });
      expect(messages).toEqual([]);
    }
    const each = name.startsWith('4') ? [5, 1, 4, 1, 5, 1] : [5, 4, 5];
    expect(asked(service.urls)).toEqual([...each, ...each]);
  });

  it('is drift where the service says that the event is empty, and sends a whole page of rows', async () => {
    const { exhibitors } = against(({ page }) => wrapper(page, 50, 0, 50, { totalPages: 0 }));
    await expect(all(exhibitors.stream('e', { startPage: 2 }))).rejects.toMatchObject({
      code: 'pagination_drift',
    });
  });

  /** Its replies where it reports the number of rows of a page as its page size. */
  const rowsAsSize =
    (answer: Answer): Answer =>
    (request) => {
      const { paginationMetadata, data } = answer(request) as ReturnType<typeof wrapper>;
      return { paginationMetadata: { ...paginationMetadata, itemsPerPage: data.length }, data };
    };

  it.each(ENDINGS.filter(([name]) => !name.startsWith('4')))(
    'or at the last page is read where the service reports its rows as page size, and answers %s',
    async (_name, answer) => {
      const { exhibitors } = against(rowsAsSize(ending(answer)));
      for (const options of [{}, { expect: size }, { expect: size, onDrift: 'ignore' }] as const) {
        const messages = await messagesOn('nestjs-exhibitor:drift', async () => {
          const last = all(exhibitors.stream('e', { ...options, startPage: 3 }));
          await expect(last).resolves.toEqual(rows(COUNT).slice(100));
          for (const startPage of [4, 5]) {
            await expect(all(exhibitors.pages('e', { ...options, startPage }))).resolves.toEqual([]);
          }
        });
        expect(messages).toEqual([]);
      }
      for (const startPage of [3, 4]) {
        const other = { totalCount: COUNT, itemsPerPage: 30 };
        const reading = all(exhibitors.pages('e', { startPage, expect: other }));
        await expect(reading).rejects.toMatchObject({ code: 'pagination_drift' });
      }
    },
  );

  it('or at the last page is read where the service limits the page size, too', async () => {
    const { exhibitors } = against(
      rowsAsSize(({ page }) => (page > 5 ? wrapper(page, 0, COUNT, 25) : honest(page, 25, COUNT))),
    );
    for (const expected of [undefined, { totalCount: COUNT }, { totalCount: COUNT, itemsPerPage: 25 }]) {
      const at = (startPage: number) => all(exhibitors.stream('e', { startPage, expect: expected }));
      await expect(at(5)).resolves.toEqual(rows(COUNT).slice(100));
      await expect(at(6)).resolves.toEqual([]);
    }
  });

  it('fails at a short last page, also where its page size is the number of its rows', async () => {
    const { exhibitors } = against(rowsAsSize(({ page }) => wrapper(page, page === 3 ? 19 : 50, COUNT)));
    const breach = { field: 'data.length', expected: 20, seen: 19, page: 3 };
    for (const expected of [undefined, size]) {
      const reading = all(exhibitors.pages('e', { startPage: 3, expect: expected }));
      await expect(reading).rejects.toMatchObject({ breach, lastGoodPage: 0 });
    }
  });

  it.each(ENDINGS)(
    'fails where the event has another size and the service answers %s',
    async (_name, answer) => {
      const { exhibitors } = against(ending(answer));
      const at = (startPage: number, expected: NonNullable<StreamOptions['expect']>) =>
        all(exhibitors.pages('e', { startPage, onDrift: 'ignore', expect: expected }));
      for (const page of [1, 4]) {
        for (const [field, expected] of [
          ['totalCount', 121],
          ['itemsPerPage', 40],
        ] as const) {
          await expect(at(page, { ...size, [field]: expected })).rejects.toMatchObject({
            name: 'PaginationDriftError',
            breach: { field, expected, seen: size[field], page },
            lastGoodPage: 0,
          });
        }
      }
      await expect(at(3, size)).resolves.toHaveLength(1);
    },
  );

  it.each([
    [404, 404, 'not_found'],
    [404, 400, 'not_found'],
    [403, 400, 'access_denied'],
    [503, 404, 'service_unavailable'],
  ])('fails as page 1 does, %i, where the service answers %i: %s', async (first, others, code) => {
    const { exhibitors } = against((request) => status(request.page === 1 ? first : others)(request));
    await expect(all(exhibitors.pages('e', { startPage: 4 }))).rejects.toMatchObject({ code });
  });

  it('fails as the refused page where page 1 says that the event has it', async () => {
    const { exhibitors, service } = against(but(200, { 4: status(400) }));
    const refused = { code: 'request_rejected', status: 400 };
    await expect(all(exhibitors.pages('e', { startPage: 4 }))).rejects.toMatchObject(refused);
    await expect(all(exhibitors.pages('e', { startPage: 3 }))).rejects.toMatchObject(refused);
    expect(asked(service.urls)).toEqual([4, 1, 3, 4, 1]);
  });

  /** An event that shrinks after these requests, whose last page is then refused. */
  const shrinkingAfter =
    (requests: number, code: number): Answer =>
    (request) => {
      const [total, pages] = request.count <= requests ? [120, 3] : [90, 2];
      return request.page > pages ? status(code)(request) : honest(request.page, 50, total);
    };

  it.each([400, 404])('fails where the event shrinks and its last page is %i', async (code) => {
    const read = (onDrift: StreamOptions['onDrift']) =>
      all(against(shrinkingAfter(1, code)).exhibitors.pages('e', { startPage: 2, prefetch: 1, onDrift }));
    const breach = { field: 'totalCount', expected: 120, seen: 90, page: 3 };
    await expect(read('error')).rejects.toMatchObject({ breach, lastGoodPage: 2 });
    // As where the service answers an empty page.
    const empty = { paginationMetadata: { currentPage: 3 }, data: [] };
    await expect(read('ignore')).resolves.toMatchObject([{}, empty]);
  });

  it('is read again by a snapshot where the event shrinks and its last page is 404', async () => {
    const { exhibitors, service } = against(shrinkingAfter(2, 404));
    const snapshot = lastValueFrom(exhibitors.snapshot('e', { prefetch: 1 }));
    await expect(snapshot).resolves.toMatchObject({ totalCount: 90, restarts: 1 });
    expect(asked(service.urls)).toEqual([1, 2, 3, 1, 1, 2]);
  });

  it('sends nothing more where it is left while the page is refused', async () => {
    const received: PageRequest[] = [];
    const { exhibitors, service } = against((request) => void received.push(request));
    const items = exhibitors.iteratePages('e', { startPage: 4 });
    const waiting = items.next();
    await eventually(() => received.length === 1);
    received[0]?.response.writeHead(404).end();
    await eventually(() => received.length === 2);
    await items.return?.();
    await expect(waiting).resolves.toMatchObject({ done: true });
    await eventually(() => service.aborted === 1);
    expect(asked(service.urls)).toEqual([4, 1]);
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
    const reading = all(against(answer).exhibitors.pages('e', { startPage: 4 }));
    await expect(reading).rejects.toMatchObject({ code: 'pagination_drift', breach });
  });
});

describe('a service that clamps the page size', () => {
  it.each<[itemsPerPage: number | undefined, granted: (size: number) => number, sizes: string[]]>([
    [undefined, (size) => Math.min(size, 20), ['50', '20', '20', '20', '20']],
    [10, () => 50, ['10', '10']],
  ])('is read with the page size that it grants: %p', async (itemsPerPage, granted, sizes) => {
    const { exhibitors, service } = against((request) =>
      honest(request.page, granted(request.itemsPerPage), 90),
    );
    await expect(all(exhibitors.stream('e', { itemsPerPage }))).resolves.toEqual(rows(90));
    expect(service.urls.map((url) => /ItemsPerPage=(\d+)/.exec(url)?.[1])).toEqual(sizes);
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
});

it('a failure is reported after the pages before it, and cancels the pages behind it', async () => {
  const answers: Record<number, Answer> = {
    1: () => honest(1, 50, 1_000),
    2: ({ response }) => void setTimeout(() => sendJson(response, honest(2, 50, 1_000)), 200),
    3: status(403),
  };
  const { exhibitors, service } = against((request) => answers[request.page]?.(request));
  expect(await pagesUntil(exhibitors.pages('e'), { code: 'access_denied' })).toEqual([1, 2]);
  await eventually(() => service.aborted === service.urls.length - 3);
});
