/** A whole event, read in three ways. Arguments: the variant and the address of the stub. */
import { Agent } from 'node:http';
import { create } from 'axios';
import pMap from 'p-map';
import { EMPTY, expand, from, lastValueFrom, mergeMap, reduce } from 'rxjs';
import { serveVariant, tenantAt } from './harness.mjs';

const [variant, stub] = process.argv.slice(2);

const makers = {
  /** What the manual of rxjs shows: each page asks for the next. */
  async expand() {
    const get = axiosPages();
    return (event) =>
      lastValueFrom(
        from(get(event, 1)).pipe(
          expand(({ paginationMetadata: { hasNextPage, currentPage } }) =>
            hasNextPage ? from(get(event, currentPage + 1)) : EMPTY,
          ),
          mergeMap(({ data }) => data),
          reduce((count) => count + 1, 0),
        ),
      );
  },

  /** All pages after the first with bounded concurrency, collected. */
  async pMap() {
    const get = axiosPages();
    return async (event, concurrency) => {
      const first = await get(event, 1);
      const rest = Array.from({ length: first.paginationMetadata.totalPages - 1 }, (_, index) => index + 2);
      const pages = await pMap(rest, (page) => get(event, page), { concurrency });
      return [first, ...pages].flatMap(({ data }) => data).length;
    };
  },

  async exhibitor() {
    const exhibitors = await exhibitorsService();
    return (event, prefetch) =>
      lastValueFrom(exhibitors.stream(event, { prefetch }).pipe(reduce((count) => count + 1, 0)));
  },

  /** The same, looking at what is alive on the heap while it runs. */
  async heap() {
    const exhibitors = await exhibitorsService();
    return async (event, prefetch, every) => {
      const before = liveBytes();
      let [peak, count] = [before, 0];
      await lastValueFrom(
        exhibitors.pages(event, { prefetch }).pipe(
          mergeMap(({ paginationMetadata, data }) => {
            if (paginationMetadata.currentPage % every === 0) {
              peak = Math.max(peak, liveBytes());
            }
            count += data.length;
            return EMPTY;
          }),
        ),
        { defaultValue: undefined },
      );
      return { count, before, peak };
    };
  },
};

function axiosPages() {
  const client = create({ httpAgent: new Agent({ keepAlive: true }) });
  return async (event, page) => {
    const params = { Page: page, ItemsPerPage: 50 };
    return (await client.get(`${stub}/api/v1/exhibitor/event/${event}`, { params })).data;
  };
}

async function exhibitorsService() {
  await import('reflect-metadata');
  const { NestFactory } = await import('@nestjs/core');
  const { ExhibitorModule, ExhibitorsService } = await import('../../dist/index.js');
  const app = await NestFactory.createApplicationContext(
    ExhibitorModule.forRoot({ tenant: tenantAt(stub) }),
    {
      logger: false,
    },
  );
  return app.get(ExhibitorsService);
}

function liveBytes() {
  globalThis.gc();
  return process.memoryUsage().heapUsed;
}

const read = await makers[variant]();
serveVariant(async ({ pages, latency, prefetch, every }) => {
  const answer = await read(`pages-${pages}-latency-${latency}`, prefetch, every);
  const { count, ...more } = typeof answer === 'number' ? { count: answer } : answer;
  if (count !== pages * 50) {
    throw new Error(`${count} exhibitors instead of ${pages * 50}`);
  }
  return { count, ...more };
});
