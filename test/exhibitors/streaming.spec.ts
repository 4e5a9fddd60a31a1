import type { ServerResponse } from 'node:http';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { firstValueFrom, lastValueFrom, tap, toArray, type Observable } from 'rxjs';
import type { ExhibitorSandbox, SandboxExhibitor } from '../../lib/testing/index.js';
import { handMadeCases, honest, startRestHost, threeTenants, type RestHost } from './rest-host.js';
import { aWhile, eventually, pause } from '../support/wait.js';
import { sendJson } from '../support/server.js';
import { openRequests, startSandbox } from '../support/sandbox.js';
import { reset, truncate } from '../support/faults.js';

const WORLD = 'world-2026';

const { against } = handMadeCases();
let sandbox: ExhibitorSandbox;
let host: RestHost<SandboxExhibitor>;

beforeAll(async () => {
  sandbox = await startSandbox();
  host = await startRestHost<SandboxExhibitor>(threeTenants(sandbox));
});
afterAll(async () => {
  await host?.close();
  await sandbox?.stop();
});
beforeEach(() => sandbox.clearRequests());
afterEach(() => {
  sandbox.latency = 0;
  sandbox?.clearFaults();
});

const acme = () => host.exhibitors.forTenant('acme');
const lists = () => sandbox.requests.filter(({ operation }) => operation === 'list');
const all = <V>(values: Observable<V>) => lastValueFrom(values.pipe(toArray()));
async function collected<V>(items: AsyncIterable<V>): Promise<V[]> {
  const values: V[] = [];
  for await (const item of items) {
    values.push(item);
  }
  return values;
}
const world = () => sandbox.exhibitors(WORLD, 'acme');
const numbers = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => from + index);

describe('a whole event', () => {
  it('is 25 pages of 50 in order, with its 1,234 exhibitors exactly', async () => {
    const pages = await all(acme().pages(WORLD));
    expect(pages.map(({ paginationMetadata }) => paginationMetadata.currentPage)).toEqual(numbers(1, 25));
    expect(pages.map(({ data }) => data.length)).toEqual([...Array(24).fill(50), 34]);
    expect(pages.flatMap(({ data }) => data)).toEqual(world());
    expect(lists()).toHaveLength(25);
  });

  it.each([1, 16])('is the same as a stream and as an iteration, with a prefetch of %i', async (prefetch) => {
    const event = 'national-2026';
    const whole = sandbox.exhibitors(event, 'acme');
    await expect(all(acme().stream(event, { prefetch }))).resolves.toEqual(whole);
    await expect(collected(acme().iterate(event, { prefetch }))).resolves.toEqual(whole);
    const pages = await collected(acme().iteratePages(event, { prefetch }));
    expect(pages.flatMap(({ data }) => data)).toEqual(whole);
  });

  it('keeps its order although replies arrive in another order', async () => {
    for (const page of [2, 5, 9]) {
      sandbox.failNext({ operation: 'list' }, { kind: 'delay', ms: page * 15 });
    }
    await expect(all(acme().stream(WORLD, { prefetch: 8 }))).resolves.toEqual(world());
  });

  it('is complete although requests fail temporarily', async () => {
    const faults = [
      { kind: 'status', status: 503 },
      reset('mid-body'),
      truncate(),
      { kind: 'status', status: 429, headers: { 'retry-after': '0' } },
    ] as const;
    const reading = acme()
      .pages(WORLD)
      .pipe(
        tap(({ paginationMetadata }) => {
          const fault = faults[paginationMetadata.currentPage / 5 - 1];
          if (fault !== undefined) {
            sandbox.failNext('list', fault);
          }
        }),
      );
    expect((await all(reading)).flatMap(({ data }) => data)).toEqual(world());
    expect(lists()).toHaveLength(25 + faults.length);
  });

  it('is one empty page where it has no exhibitors, and fails with not_found where it does not exist', async () => {
    const pages = await all(acme().pages('empty-2026'));
    expect(pages).toMatchObject([{ paginationMetadata: { totalCount: 0, currentPage: 1 }, data: [] }]);
    await expect(all(acme().stream('empty-2026'))).resolves.toEqual([]);
    await expect(all(acme().pages('nowhere'))).rejects.toMatchObject({ code: 'not_found', tenant: 'acme' });
  });

  it('has a deadline for each page', async () => {
    sandbox.latency = 100;
    const began = performance.now();
    await all(acme().pages(WORLD, { prefetch: 1, maxPages: 6, deadline: 500 }));
    expect(performance.now() - began).toBeGreaterThan(500);
  });

  it('reports a wrong argument through the Observable, or by the first step of the iteration', async () => {
    for (const call of [
      all(acme().pages('..')),
      all(acme().stream(WORLD, { prefetch: 17 })),
      all(acme().snapshot(WORLD, { attempts: 0 })),
      acme().iterate(WORLD, { maxPages: 0 }).next(),
      acme().iteratePages(WORLD, { startPage: 0 }).next(),
    ]) {
      await expect(call).rejects.toMatchObject({ code: 'invalid_argument' });
    }
    await expect(host.exhibitors.iterate(WORLD).next()).rejects.toMatchObject({ code: 'tenant_required' });
    expect(sandbox.requests).toHaveLength(0);
  });
});

describe('the window', () => {
  it.each([1, 4, 16])('holds at most %i running requests', async (prefetch) => {
    let [open, most] = [0, 0];
    const answer = async (page: number, response: ServerResponse): Promise<void> => {
      await eventually(() => page === 1 || most >= prefetch);
      await pause(10);
      open -= 1;
      sendJson(response, honest(page, 50, 1_000));
    };
    const { exhibitors } = against(({ page, response }) => {
      open += 1;
      most = Math.max(most, open);
      void answer(page, response);
    });
    await all(exhibitors.pages('e', { prefetch }));
    expect(most).toBe(prefetch);
  });
});

/** Every other way and moment to leave: leaving.spec.ts. */
describe('a consumer that leaves', () => {
  it('requests one page only with take(1)', async () => {
    await firstValueFrom(acme().pages(WORLD));
    await aWhile();
    expect(lists()).toHaveLength(1);
  });

  it('gets no further exhibitor after it left in the middle of a page', async () => {
    const seen: string[] = [];
    const subscription = acme()
      .stream(WORLD)
      .subscribe(({ id }) => {
        seen.push(id);
        if (seen.length === 60) {
          subscription.unsubscribe();
        }
      });
    await eventually(() => seen.length === 60);
    await aWhile();
    expect(seen).toHaveLength(60);
    expect(openRequests(sandbox)).toBe(0);
    expect(lists().length).toBeLessThanOrEqual(6);
  });

  it('fails the next step of an idle iteration by its signal', async () => {
    const controller = new AbortController();
    const items = acme().iterate(WORLD, { signal: controller.signal, prefetch: 1, itemsPerPage: 1 });
    await items.next();
    await eventually(() => lists().length === 2 && openRequests(sandbox) === 0);
    controller.abort();
    await expect(items.next()).rejects.toMatchObject({ code: 'aborted' });
    await expect(items.next()).resolves.toMatchObject({ done: true });
  });
});

describe('a part of an event', () => {
  it('begins at startPage and ends after maxPages', async () => {
    const pages = await all(acme().pages(WORLD, { startPage: 20, maxPages: 3 }));
    expect(pages.map(({ paginationMetadata }) => paginationMetadata.currentPage)).toEqual([20, 21, 22]);
    expect(pages.flatMap(({ data }) => data)).toEqual(world().slice(950, 1_100));
    expect(lists()).toHaveLength(3);
  });

  it('resumes where a reading failed', async () => {
    const seen: SandboxExhibitor[] = [];
    let lastPage = 0;
    const read = async (startPage: number): Promise<void> => {
      for await (const { paginationMetadata, data } of acme().iteratePages(WORLD, {
        startPage,
        prefetch: 2,
      })) {
        lastPage = paginationMetadata.currentPage;
        seen.push(...data);
        if (lastPage === 7) {
          sandbox.failNext('list', { kind: 'status', status: 403 });
        }
      }
    };
    await expect(read(1)).rejects.toMatchObject({ code: 'access_denied' });
    expect(lastPage).toBeLessThan(25);
    await read(lastPage + 1);
    expect(seen).toEqual(world());
  });
});

const records = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ id: `x${index}`, contactEmails: [] }));

describe('an event that changes while it is read', () => {
  const LIVE = 'live-2026';

  it('is read again by snapshot until it does not change', async () => {
    sandbox.setExhibitors(LIVE, records(300), 'acme');
    sandbox.latency = 30;
    const before = Date.now();
    const reading = lastValueFrom(acme().snapshot(LIVE, { prefetch: 1 }));
    await eventually(() => lists().length === 3);
    sandbox.setExhibitors(LIVE, records(301), 'acme');
    const snapshot = await reading;
    expect(snapshot).toMatchObject({ totalCount: 301, restarts: 1 });
    expect(snapshot.exhibitors).toEqual(records(301));
    expect(snapshot.takenAt.getTime()).toBeGreaterThanOrEqual(before);
    expect(snapshot.takenAt.getTime()).toBeLessThanOrEqual(Date.now());
  });

  it('fails the snapshot after its attempts where it always changes', async () => {
    let count = 300;
    const { exhibitors, service } = against(({ page }) =>
      honest(page, 50, page === 2 ? (count += 1) : count),
    );
    await expect(lastValueFrom(exhibitors.snapshot('e', { attempts: 2 }))).rejects.toMatchObject({
      code: 'pagination_drift',
    });
    expect(service.urls.filter((url) => url.includes('Page=1&'))).toHaveLength(2);
  });
});
