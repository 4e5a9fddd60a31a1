/** The work that benchmarks compare, each in a process of its own. Arguments: its name and the address of the stub. */
import { Agent } from 'node:http';
import { lastValueFrom, firstValueFrom, reduce } from 'rxjs';
import { contextOf, serveVariant, tenantAt } from './harness.mjs';

const [name, stub] = process.argv.slice(2);
const ITEMS = 50;
const path = (event) => `/api/v1/exhibitor/event/${event}?Page=1&ItemsPerPage=${ITEMS}`;
const form = 'client_id=bench&client_secret=bench-secret&grant_type=client_credentials&scope=idp_api';
const headers = (token) => ({
  Authorization: `Bearer ${token}`,
  'X-Tenant-Id': 'bench',
  Accept: 'application/json',
});

const makers = {
  async 'list undici'() {
    const { Agent: Dispatcher, request } = await import('undici');
    const dispatcher = new Dispatcher();
    const type = { 'content-type': 'application/x-www-form-urlencoded' };
    const reply = await request(`${stub}/connect/token`, { method: 'POST', body: form, headers: type });
    const { access_token: token } = await reply.body.json();
    return pagesBy(async () => {
      const { body } = await request(stub + path('bench'), { dispatcher, headers: headers(token) });
      return body.json();
    });
  },

  /** What a host writes by hand: a cached token, a timeout and three tries. */
  async 'list HttpService'() {
    const { catchError, defer, from, retry, switchMap, throwError, timer } = await import('rxjs');
    await import('reflect-metadata');
    const { HttpService } = await import('@nestjs/axios');
    const http = new HttpService(await axiosClient({ timeout: 4_000 }));
    let cached;
    const token = () => {
      if (cached === undefined || Date.now() >= cached.until) {
        const posted = firstValueFrom(http.post(`${stub}/connect/token`, form));
        const promise = posted.then(({ data }) => data.access_token);
        cached = { promise, until: Date.now() + 3_540_000 };
      }
      return from(cached.promise);
    };
    const list = () =>
      defer(token).pipe(
        switchMap((accessToken) => http.get(stub + path('bench'), { headers: headers(accessToken) })),
        retry({
          count: 2,
          delay: (error, count) =>
            [408, 429, 500, 502, 503, 504].includes(error.response?.status ?? 503)
              ? timer(Math.random() * 100 * 2 ** count)
              : throwError(() => error),
        }),
        catchError((error) => throwError(() => new Error(error.message))),
      );
    return pagesBy(async () => (await firstValueFrom(list())).data);
  },

  async 'list exhibitor'() {
    const { exhibitors } = await contextOf({ tenant: tenantAt(stub) });
    return pagesBy(() => firstValueFrom(exhibitors.list('bench')));
  },

  /** All pages after the first with bounded concurrency, collected. */
  async 'event p-map'() {
    const { default: pMap } = await import('p-map');
    const client = await axiosClient();
    const get = async (event, page) =>
      (await client.get(stub + path(event).replace('=1&', `=${page}&`))).data;
    return exhibitorsBy(async (event, concurrency) => {
      const first = await get(event, 1);
      const rest = Array.from({ length: first.paginationMetadata.totalPages - 1 }, (_, index) => index + 2);
      const pages = await pMap(rest, (page) => get(event, page), { concurrency });
      return [first, ...pages].flatMap(({ data }) => data).length;
    });
  },

  async 'event stream'() {
    const { exhibitors } = await contextOf({ tenant: tenantAt(stub) });
    return exhibitorsBy((event, prefetch) =>
      lastValueFrom(exhibitors.stream(event, { prefetch }).pipe(reduce((count) => count + 1, 0))),
    );
  },

  /** The largest live heap while an event is read. */
  async 'event memory'() {
    const { exhibitors } = await contextOf({ tenant: tenantAt(stub) });
    return async ({ pages }) => {
      let peak = 0;
      const look = (read) => {
        if (read % (pages / 20) === 0) {
          globalThis.gc();
          peak = Math.max(peak, process.memoryUsage().heapUsed);
        }
        return read + 1;
      };
      await lastValueFrom(exhibitors.pages(`pages-${pages}-latency-0`).pipe(reduce(look, 1)));
      return { peak };
    };
  },

  'items generator': () => itemsBy((pages) => everyItem(pages)),

  /** No network, no JSON; everything that is ours from the window to the consumer is in it. */
  async 'items iterate'() {
    await import('reflect-metadata');
    const { PageReader } = await import('../../dist/exhibitors/pages/page-reader.js');
    const { iterateOver } = await import('../../dist/exhibitors/pages/read-pages.js');
    const { Call } = await import('../../dist/call/call.js');
    const { Clock } = await import('../../dist/call/clock.js');
    return itemsBy((pages) => {
      const fetch = async (number) => ({ number, page: pages[number - 1], rows: pages[number - 1].data });
      const call = new Call(new Clock(), Infinity);
      const plan = {
        tenant: 'bench',
        itemsPerPage: ITEMS,
        startPage: 1,
        prefetch: 4,
        call,
        onDrift: 'error',
        fetch,
      };
      return iterateOver(
        () => ({ call, open: async () => new PageReader(plan) }),
        ({ data }) => data,
      );
    });
  },

  async 'cached token'() {
    const { tokens } = await contextOf({ tenant: tenantAt(stub) });
    await tokens.getToken();
    return async ({ calls }) => {
      for (let call = 0; call < calls; call += 1) {
        await tokens.getToken();
      }
      return { calls };
    };
  },

  /** Tenants that come from a source as from a database: no tenant has a text of another, and none is a chain of parts. */
  async heap() {
    const keys = (key) => ({
      tenantId: `tenant-${key}`,
      clientId: `client-${key}`,
      clientSecret: `secret-of-${key}`,
    });
    const login = (key) => ({
      clientId: `web-${key}`,
      redirectUri: 'http://127.0.0.1/callback',
      issuer: stub,
      keys: `${stub}/keys`,
    });
    const find = (key) => JSON.parse(JSON.stringify({ ...tenantAt(stub), ...keys(key), login: login(key) }));
    const tenantCache = { max: 20_000, ttl: 3_600_000 };
    const secrets = ['a secret of the benchmark, of 32 characters or more'];
    const { exhibitors, tokens, tenants } = await contextOf({
      tenants: { find },
      allowedOrigins: () => true,
      tenantCache,
      secrets,
    });
    const uses = {
      options: (tenant) => tenants.get(tenant),
      token: (tenant) => tokens.getToken({ tenant }),
      page: (tenant) => firstValueFrom(exhibitors.list('bench', { tenant })),
    };
    return async ({ use, from, to }) => {
      for (let index = from; index < to; index += 1) {
        await uses[use](`key-${index}`);
      }
      return { bytes: await liveBytes() };
    };
  },
};

async function axiosClient(options) {
  const { create } = await import('axios');
  return create({ httpAgent: new Agent({ keepAlive: true }), ...options });
}

/** Pages by so many callers, each with one call at a time. */
function pagesBy(call) {
  return async ({ concurrency, calls }) => {
    let left = calls;
    const caller = async () => {
      while (left > 0) {
        left -= 1;
        const page = await call();
        if (page.data.length !== ITEMS) {
          throw new Error('not the page that was asked for');
        }
      }
    };
    await Promise.all(Array.from({ length: concurrency }, caller));
    return { calls };
  };
}

/** A whole event, of which `read` answers the number of exhibitors. */
function exhibitorsBy(read) {
  return async ({ pages, latency, prefetch }) => {
    const count = await read(`pages-${pages}-latency-${latency}`, prefetch);
    if (count !== pages * ITEMS) {
      throw new Error(`${count} exhibitors instead of ${pages * ITEMS}`);
    }
    return { count };
  };
}

/** Pages that are parsed already. A reading is short: several in a row measure the code as a host runs it, compiled. */
function itemsBy(iterate) {
  const [totalPages, readings] = [2_000, 10];
  const metadata = { totalCount: totalPages * ITEMS, totalPages, itemsPerPage: ITEMS };
  const pages = Array.from({ length: totalPages }, (_, index) => ({
    paginationMetadata: { currentPage: index + 1, ...metadata },
    data: Array.from({ length: ITEMS }, (_row, row) => ({
      id: `exhibitor-${index}-${row}`,
      name: `Exhibitor number ${index * ITEMS + row}`,
      hall: `Hall ${row % 7}`,
      booths: [{ number: `${row % 7}.${row}`, squareMetres: 12 + row }],
    })),
  }));
  return async () => {
    let count = 0;
    for (let reading = 0; reading < readings; reading += 1) {
      for await (const exhibitor of iterate(pages)) {
        count += exhibitor === undefined ? 0 : 1;
      }
    }
    if (count !== readings * metadata.totalCount) {
      throw new Error(`${count} exhibitors are not those of ${totalPages} pages`);
    }
    return { count };
  };
}

async function* everyItem(pages) {
  for (const { data } of pages) {
    for (const exhibitor of data) {
      yield exhibitor;
    }
  }
}

async function liveBytes() {
  for (let turn = 0; turn < 5; turn += 1) {
    globalThis.gc();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return process.memoryUsage().heapUsed;
}

serveVariant(await makers[name]());
