/**
 * What `stream` and `iterate` themselves cost an exhibitor: a walk over pages that are parsed already, beside a plain loop and a
 * plain async generator over them. No network, no JSON; everything that is ours from the window to the consumer is in it.
 */
import { lastValueFrom, Observable, reduce } from 'rxjs';
import { serveVariant } from './harness.mjs';

await import('reflect-metadata');
const { PageReader } = await import('../../dist/exhibitors/pages/page-reader.js');
const { iterateOver, observe } = await import('../../dist/exhibitors/pages/read-pages.js');

const [PAGES, ITEMS] = [2_000, 50];
/** A reading is short: several in a row measure the code as a host runs it, compiled. */
const READINGS = 10;
const pages = Array.from({ length: PAGES }, (_, index) => ({
  paginationMetadata: {
    currentPage: index + 1,
    totalCount: PAGES * ITEMS,
    totalPages: PAGES,
    itemsPerPage: ITEMS,
  },
  data: Array.from({ length: ITEMS }, (_row, row) => ({
    id: `exhibitor-${index}-${row}`,
    name: `Exhibitor number ${index * ITEMS + row}`,
    hall: `Hall ${row % 7}`,
    booths: [{ number: `${row % 7}.${row}`, squareMetres: 12 + row }],
  })),
}));

const fetch = async (page) => ({ page: pages[page - 1], rows: pages[page - 1].data });
const plan = { tenant: 'bench', itemsPerPage: ITEMS, startPage: 1, prefetch: 4, onDrift: 'error', fetch };
const event = { check: () => ({}), open: async () => new PageReader(plan) };

async function* plainGenerator() {
  for (const { data } of pages) {
    for (const exhibitor of data) {
      yield exhibitor;
    }
  }
}

const counted = (exhibitors) => lastValueFrom(exhibitors.pipe(reduce((count) => count + 1, 0)));
async function countedOf(exhibitors) {
  let count = 0;
  for await (const exhibitor of exhibitors) {
    count += exhibitor === undefined ? 0 : 1;
  }
  return count;
}

const ways = {
  /** The same consumer, given the same rows by a loop. */
  loop: () =>
    counted(
      new Observable((subscriber) => {
        for (const { data } of pages) {
          for (const exhibitor of data) {
            subscriber.next(exhibitor);
          }
        }
        subscriber.complete();
      }),
    ),
  stream: () => counted(observe(event, ({ data }) => data)),
  generator: () => countedOf(plainGenerator()),
  iterate: () => countedOf(iterateOver(event, ({ data }) => data)),
};

const way = ways[process.argv[2]];
serveVariant(async () => {
  let count = 0;
  for (let reading = 0; reading < READINGS; reading += 1) {
    count += await way();
  }
  if (count !== READINGS * PAGES * ITEMS) {
    throw new Error(`${count} exhibitors are not those of ${PAGES} pages`);
  }
  return { count };
});
