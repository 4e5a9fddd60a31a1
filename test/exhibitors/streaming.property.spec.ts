/**
 * Readings of a model service that is slow, clamps, fails and changes while it is read. `npm test` runs 80 cases a
 * property; `PROPERTY_RUNS=100000` and `PROPERTY_SEED=…` set another number and repeat a run.
 */
import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { type Observable, type Subscription, take, toArray, lastValueFrom } from 'rxjs';
import { PaginationDriftError } from '../../lib/errors/pagination-drift.error.js';
import type { ExhibitorPage } from '../../lib/exhibitors/pages/exhibitor-page.interface.js';
import { PageReader } from '../../lib/exhibitors/pages/page-reader.js';
import { iterateOver, observe, type Reading as EventReading } from '../../lib/exhibitors/pages/read-pages.js';
import { microtasks } from '../support/moments.js';
import { ModelService, type Answer, type ModelPlan, type Row } from './model-service.js';

const numRuns = Number(process.env['PROPERTY_RUNS'] ?? 80);
const seed = Number(process.env['PROPERTY_SEED'] ?? Date.now() % 2 ** 31);

interface Reading {
  itemsPerPage: number;
  prefetch: number;
  startPage: number;
  maxPages: number | undefined;
}

const turns = fc.integer({ min: 0, max: 12 });
const requests = fc.array(fc.integer({ min: 1, max: 30 }), { maxLength: 2 });
const change = fc.record({
  afterAnswers: fc.integer({ min: 1, max: 30 }),
  kind: fc.constantFrom('insert' as const, 'delete' as const),
  at: fc.nat(400),
});

const quietPlan: fc.Arbitrary<ModelPlan> = fc.record({
  rows: fc.oneof(fc.integer({ min: 0, max: 12 }), fc.integer({ min: 0, max: 400 })),
  clampTo: fc.oneof(fc.constant(50), fc.integer({ min: 1, max: 50 })),
  latencies: fc.array(turns, { minLength: 1, maxLength: 8 }),
  changes: fc.constant([]),
  failures: fc.constant([]),
  retries: requests,
});
const restlessPlan: fc.Arbitrary<ModelPlan> = fc
  .tuple(quietPlan, fc.array(change, { maxLength: 4 }), requests)
  .map(([plan, changes, failures]) => ({ ...plan, changes, failures: failures.slice(1) }));

const reading: fc.Arbitrary<Reading> = fc.record({
  itemsPerPage: fc.integer({ min: 1, max: 50 }),
  prefetch: fc.integer({ min: 1, max: 16 }),
  startPage: fc.oneof({ weight: 4, arbitrary: fc.constant(1) }, fc.integer({ min: 1, max: 12 })),
  maxPages: fc.option(fc.integer({ min: 1, max: 12 }), { nil: undefined }),
});

function openReader(
  service: ModelService,
  how: Reading,
  consumer: Subscription,
  onDrift: 'error' | 'ignore' = 'error',
) {
  return new PageReader<Row>({ ...how, tenant: 'acme', consumer, onDrift, fetch: service.fetch });
}

function readingOf(service: ModelService, how: Reading, onDrift?: 'ignore'): EventReading<object, Row> {
  return {
    check: () => ({}),
    open: async ({ consumer }) => openReader(service, how, consumer, onDrift),
  };
}

function pagesOf(service: ModelService, how: Reading, onDrift?: 'ignore'): Observable<ExhibitorPage<Row>> {
  return observe(readingOf(service, how, onDrift), (page) => [page]);
}

/** Reads to the end or to the error; records every page and checks the window. */
async function read(service: ModelService, how: Reading, onDrift?: 'ignore') {
  const pages: ExhibitorPage<Row>[] = [];
  const error = await new Promise<unknown>((resolve) => {
    pagesOf(service, how, onDrift).subscribe({
      next: (page) => {
        pages.push(page);
        expect(Math.max(...service.asked)).toBeLessThan(how.startPage + pages.length + how.prefetch);
      },
      error: resolve,
      complete: () => resolve(undefined),
    });
  });
  return { pages, error };
}

/** The rows of a reading where nothing changes. */
function wanted(rows: readonly Row[], how: Reading, size: number): Row[] {
  const from = (how.startPage - 1) * size;
  return rows.slice(from, how.maxPages === undefined ? undefined : from + how.maxPages * size);
}

if (process.env['PROPERTY_RUNS'] !== undefined) {
  process.stdout.write(`seed ${seed}, ${numRuns} runs\n`);
}

/** A property of readings of such services; `chosen` is one more number of each case. */
function property(
  title: string,
  plans: fc.Arbitrary<ModelPlan>,
  check: (service: ModelService, how: Reading, chosen: number, plan: ModelPlan) => Promise<void>,
): void {
  const all = fc.asyncProperty(plans, reading, fc.nat(200), async (plan, how, chosen) =>
    check(new ModelService(plan), how, chosen, plan),
  );
  it(title, () => fc.assert(all, { numRuns, seed }), 60 * 60_000);
}

const withoutFailures = restlessPlan.map((plan): ModelPlan => ({ ...plan, failures: [] }));

describe('an event that does not change', () => {
  property(
    'is read exactly and in order, with no more running requests than the window',
    quietPlan,
    async (service, how, _chosen, { clampTo }) => {
      const { pages, error } = await read(service, how);
      expect(error).toBeUndefined();
      const size = Math.min(how.itemsPerPage, clampTo);
      expect(pages.flatMap(({ data }) => data)).toEqual(wanted(service.rows, how, size));
      const numbers = pages.map(({ paginationMetadata }) => paginationMetadata.currentPage);
      expect(numbers).toEqual(pages.map((_, index) => how.startPage + index));
      expect(service.mostUnderWay).toBeLessThanOrEqual(how.prefetch);
      expect(new Set(service.asked).size).toBe(service.asked.length);
      expect(service.asked).toHaveLength(Math.max(1, pages.length));
    },
  );

  property(
    'is read by a slow loop without reading ahead, and up to where the loop breaks',
    quietPlan,
    async (service, how, stopAfter, { clampTo }) => {
      const size = Math.min(how.itemsPerPage, clampTo);
      const seen: Row[] = [];
      for await (const row of iterateOver(readingOf(service, how), ({ data }) => data)) {
        seen.push(row);
        const current = how.startPage + Math.floor((seen.length - 1) / size);
        expect(Math.max(...service.asked)).toBeLessThanOrEqual(current + how.prefetch);
        await microtasks(stopAfter % 13);
        if (seen.length > stopAfter) {
          break;
        }
      }
      expect(seen).toEqual(wanted(service.rows, how, size).slice(0, stopAfter + 1));
      await nothingMoreHappens(service);
    },
  );
});

describe('an event that changes, or a service that fails, while it is read', () => {
  property(
    'emits the rows that were sent, or an error where the numbers show a change: no silent loss, no duplicate',
    restlessPlan,
    async (service, how, _chosen, plan) => {
      const { pages, error } = await read(service, how);
      const rows = pages.flatMap(({ data }) => data);
      const served = pages.map(({ paginationMetadata }) => answerOf(service, paginationMetadata.currentPage));
      expect(rows).toEqual(served.flatMap((answer) => answer.rows));
      const [first] = service.answers;
      for (const { metadata } of served) {
        const { totalCount, totalPages } = first?.metadata ?? {};
        expect(metadata).toMatchObject({ totalCount, totalPages });
      }
      if (error === undefined && first !== undefined) {
        const { totalCount, itemsPerPage } = first.metadata;
        const promised = Array.from({ length: totalCount }, (_, id) => ({ id }));
        expect(rows).toHaveLength(wanted(promised, how, itemsPerPage).length);
        expect(service.changed ? rows : wanted(service.rows, how, itemsPerPage)).toEqual(rows);
      }
      if (error instanceof PaginationDriftError) {
        expect(service.changed).toBe(true);
        expect(error.lastGoodPage).toBe(pages.at(-1)?.paginationMetadata.currentPage ?? 0);
        expect(error.breach.page).toBe(how.startPage + pages.length);
      } else if (error !== undefined) {
        expect(String(error)).toBe('Error: down');
        expect(plan.failures.length).toBeGreaterThan(0);
      }
      await nothingMoreHappens(service);
    },
  );

  property(
    'ends where drift is ignored, after the number of pages of the first reply',
    withoutFailures,
    async (service, how) => {
      const { pages, error } = await read(service, how, 'ignore');
      expect(error).toBeUndefined();
      const told = service.answers[0]?.metadata.totalPages ?? 0;
      const last = Math.min(told, how.maxPages === undefined ? told : how.startPage + how.maxPages - 1);
      expect(pages).toHaveLength(Math.max(how.startPage === 1 ? 1 : 0, last - how.startPage + 1));
    },
  );

  it('after a page that failed, no further one is requested', async () => {
    const plan = { rows: 400, clampTo: 50, latencies: [0, 0, 9, 0], changes: [], retries: [] };
    const service = new ModelService({ ...plan, failures: [3] });
    const how = { itemsPerPage: 50, prefetch: 2, startPage: 1, maxPages: undefined };
    const { pages, error } = await read(service, how);
    expect([pages.length, String(error), service.asked]).toEqual([2, 'Error: down', [1, 2, 3]]);
  });
});

describe('a consumer that leaves', () => {
  property('stops every request, whatever is running', withoutFailures, async (service, how, chosen) => {
    const left = pagesOf(service, how, 'ignore').pipe(take(1 + (chosen % 8)), toArray());
    await lastValueFrom(left);
    await nothingMoreHappens(service);
  });
});

function answerOf(service: ModelService, page: number): Answer {
  const answer = service.answers.find((candidate) => candidate.page === page);
  if (answer === undefined) {
    throw new Error(`page ${page} was never served`);
  }
  return answer;
}

async function nothingMoreHappens(service: ModelService): Promise<void> {
  const [asked, answered] = [service.asked.length, service.answers.length];
  await microtasks(100);
  expect(service.asked).toHaveLength(asked);
  expect(service.answers).toHaveLength(answered);
  expect(service.underWay).toBe(0);
}
