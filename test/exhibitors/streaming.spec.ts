import type { ServerResponse } from 'node:http';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { firstValueFrom, lastValueFrom, toArray, type Observable } from 'rxjs';
import type { ExhibitorPage } from '../../lib/index.js';
import type { SandboxExhibitor } from '../../lib/development/testing/index.js';
import { handMadeCases, honest, startRestHost, threeTenants } from './rest-host.js';
import { useHost, useSandbox } from '../support/lifetimes.js';
import { aWhile, eventually, pause } from '../support/wait.js';
import { sendJson } from '../support/server.js';
import { openRequests } from '../support/sandbox.js';

const WORLD = 'world-2026';

const { against } = handMadeCases();
const sandbox = await useSandbox();
const host = useHost(() => startRestHost<SandboxExhibitor>(threeTenants(sandbox)));
beforeEach(() => sandbox.clearRequests());

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
const numbersOf = (pages: readonly ExhibitorPage<unknown>[]) =>
  pages.map(({ paginationMetadata }) => paginationMetadata.currentPage);

describe('a whole event', () => {
  it('is 25 pages of 50 in order, with its 1,234 exhibitors exactly', async () => {
    const pages = await all(acme().pages(WORLD));
    expect(numbersOf(pages)).toEqual(Array.from({ length: 25 }, (_, index) => index + 1));
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

  it('has a deadline for each page', async () => {
    sandbox.failNext('list', { kind: 'delay', ms: 400 }, 3);
    const began = performance.now();
    await all(acme().pages(WORLD, { prefetch: 1, maxPages: 3, deadline: 1_000 }));
    expect(performance.now() - began).toBeGreaterThan(1_000);
  });

  it('reports a wrong argument through the Observable, or by the first step of the iteration', async () => {
    for (const call of [
      all(acme().list('..')),
      all(acme().list(WORLD, { page: 0 })),
      all(acme().lookup(WORLD, 'sam at example.com')),
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

  it('does not move on while a loop is slow', async () => {
    const { exhibitors, service } = against(({ page }) => honest(page, 2, 20));
    let seen = 0;
    for await (const _ of exhibitors.iterate('e', { prefetch: 2, itemsPerPage: 2 })) {
      seen += 1;
      const ahead = Math.min(10, Math.ceil(seen / 2) + 2);
      await eventually(() => service.urls.length === ahead);
      await pause(10);
      expect(service.urls).toHaveLength(ahead);
    }
    expect(seen).toBe(20);
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
    await eventually(() => openRequests(sandbox) === 0);
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
    expect(numbersOf(pages)).toEqual([20, 21, 22]);
    expect(pages.flatMap(({ data }) => data)).toEqual(world().slice(950, 1_100));
    expect(lists()).toHaveLength(3);
  });
});

describe('snapshot', () => {
  /** Counts 300 exhibitors when an event is read for the first time, and one more at each reading of page 2. */
  const growing = () => {
    let count = 300;
    return against(({ page }) => honest(page, 50, page === 2 && count < 302 ? (count += 1) : count));
  };

  it('reads an event again until it does not change', async () => {
    const { exhibitors } = growing();
    const before = Date.now();
    const { takenAt, ...snapshot } = await lastValueFrom(exhibitors.snapshot('e'));
    const data = Array.from({ length: 302 }, (_, id) => ({ id }));
    expect(snapshot).toEqual({ exhibitors: data, totalCount: 302, restarts: 2 });
    expect(takenAt.getTime()).toBeGreaterThanOrEqual(before);
    expect(takenAt.getTime()).toBeLessThanOrEqual(Date.now());
  });

  it('fails after its attempts where the event always changes', async () => {
    const { exhibitors, service } = growing();
    const reading = lastValueFrom(exhibitors.snapshot('e', { attempts: 2 }));
    await expect(reading).rejects.toMatchObject({ code: 'pagination_drift' });
    expect(service.urls.filter((url) => url.includes('Page=1&'))).toHaveLength(2);
  });
});
