/**
 * Readings of a model service that is slow, clamps and changes while it is read. `npm test` runs 200 cases;
 * `PROPERTY_RUNS=100000` and `PROPERTY_SEED=…` set another number and repeat a run.
 */
import { expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { Call } from '../../lib/call/call.js';
import { Clock } from '../../lib/call/clock.js';
import type {
  ExhibitorPage,
  PaginationMetadata,
} from '../../lib/exhibitors/pages/exhibitor-page.interface.js';
import type { Page } from '../../lib/exhibitors/pages/event-size.js';
import { PageReader } from '../../lib/exhibitors/pages/page-reader.js';
import { observe } from '../../lib/exhibitors/pages/read-pages.js';
import { microtasks } from '../support/moments.js';

const numRuns = Number(process.env['PROPERTY_RUNS'] ?? 200);
const seed = Number(process.env['PROPERTY_SEED'] ?? Date.now() % 2 ** 31);
if (process.env['PROPERTY_RUNS'] !== undefined) {
  process.stdout.write(`seed ${seed}, ${numRuns} runs\n`);
}

/** Numbered to detect losses and duplicates. */
interface Row {
  id: number;
}

/** The behaviour of a model, fixed before the run, so that a run can be repeated. */
interface ModelPlan {
  rows: number;
  /** Largest page size of the service. */
  clampTo: number;
  /** It reports the number of rows as the page size of the last page. */
  rowsAsSize: boolean;
  /** Event-loop turns that each request takes, by the order of arrival; repeated from the start. */
  latencies: readonly number[];
  /** Rows to insert or delete at a position after a number of replies. */
  changes: readonly { afterAnswers: number; kind: 'insert' | 'delete'; at: number }[];
}

/** The list endpoint of the specification in this process, with a collection that changes while it is read. */
class ModelService {
  readonly rows: Row[];
  readonly answers: { page: number; size: number; metadata: PaginationMetadata; rows: readonly Row[] }[] = [];
  readonly asked: number[] = [];
  underWay = 0;
  mostUnderWay = 0;
  changed = false;
  #nextId = 1_000;

  constructor(private readonly plan: ModelPlan) {
    this.rows = Array.from({ length: plan.rows }, (_, id) => ({ id }));
  }

  fetch = async (page: number, itemsPerPage: number, requests: Call): Promise<Page<Row>> => {
    const { latencies, clampTo } = this.plan;
    const request = this.asked.push(page);
    this.underWay += 1;
    this.mostUnderWay = Math.max(this.mostUnderWay, this.underWay);
    for (let turn = latencies[request % latencies.length] ?? 0; turn >= 0 && !requests.isOver; turn -= 1) {
      await Promise.resolve();
    }
    this.underWay -= 1;
    if (requests.isOver) {
      throw new Error('aborted');
    }
    return this.#answer(page, Math.min(itemsPerPage, clampTo));
  };

  #answer(page: number, size: number): Page<Row> {
    const totalPages = Math.ceil(this.rows.length / size);
    const rows = this.rows.slice((page - 1) * size, page * size);
    const isOwnSize = this.plan.rowsAsSize && page >= totalPages;
    const itemsPerPage = isOwnSize ? rows.length : size;
    const metadata = { currentPage: page, totalCount: this.rows.length, totalPages, itemsPerPage };
    const count = this.answers.push({ page, size, metadata, rows });
    for (const { kind, at } of this.plan.changes.filter(({ afterAnswers }) => afterAnswers === count)) {
      this.changed = true;
      if (kind === 'insert') {
        this.rows.splice(at % (this.rows.length + 1), 0, { id: (this.#nextId += 1) });
      } else {
        this.rows.splice(at % Math.max(1, this.rows.length), 1);
      }
    }
    return { number: page, page: { paginationMetadata: metadata, data: rows }, rows };
  }
}

const plans: fc.Arbitrary<ModelPlan> = fc.record({
  rows: fc.oneof(fc.integer({ min: 0, max: 12 }), fc.integer({ min: 0, max: 400 })),
  clampTo: fc.oneof(fc.constant(50), fc.integer({ min: 1, max: 50 })),
  rowsAsSize: fc.boolean(),
  latencies: fc.array(fc.integer({ min: 0, max: 12 }), { minLength: 1, maxLength: 8 }),
  changes: fc.array(
    fc.record({
      afterAnswers: fc.integer({ min: 1, max: 30 }),
      kind: fc.constantFrom('insert' as const, 'delete' as const),
      at: fc.nat(400),
    }),
    { maxLength: 3 },
  ),
});

interface Reading {
  itemsPerPage: number;
  prefetch: number;
  startPage: number;
  maxPages: number | undefined;
}
const readings: fc.Arbitrary<Reading> = fc.record({
  itemsPerPage: fc.integer({ min: 1, max: 50 }),
  prefetch: fc.integer({ min: 1, max: 16 }),
  startPage: fc.oneof({ weight: 4, arbitrary: fc.constant(1) }, fc.integer({ min: 1, max: 12 })),
  maxPages: fc.option(fc.integer({ min: 1, max: 12 }), { nil: undefined }),
});

async function read(service: ModelService, how: Reading) {
  const pages: ExhibitorPage<Row>[] = [];
  const call = new Call(new Clock(), Infinity);
  const open = async () =>
    new PageReader<Row>({ ...how, tenant: 'acme', call, onDrift: 'error', fetch: service.fetch });
  const error = await new Promise<unknown>((resolve) => {
    observe(
      () => ({ call, open }),
      (page) => [page],
    ).subscribe({
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

async function check(plan: ModelPlan, how: Reading): Promise<void> {
  const service = new ModelService(plan);
  const { pages, error } = await read(service, how);
  expect(service.mostUnderWay).toBeLessThanOrEqual(how.prefetch);
  expect(pages.map(({ paginationMetadata }) => paginationMetadata.currentPage)).toEqual(
    pages.map((_, index) => how.startPage + index),
  );
  const [first] = service.answers;
  for (const { paginationMetadata, data } of pages) {
    const served = service.answers.find(({ page }) => page === paginationMetadata.currentPage);
    expect(data).toEqual(served?.rows);
    const { totalCount, totalPages } = first?.metadata ?? {};
    expect(paginationMetadata).toMatchObject({ totalCount, totalPages });
  }
  if (error === undefined && first !== undefined) {
    const { size, metadata } = first;
    const { totalCount } = metadata;
    const rows = pages.flatMap(({ data }) => data);
    const promised = Array.from({ length: totalCount }, (_, id) => ({ id }));
    expect(rows).toHaveLength(wanted(promised, how, size).length);
    expect(service.changed ? rows : wanted(service.rows, how, size)).toEqual(rows);
  }
  if (error !== undefined) {
    const lastGoodPage = pages.at(-1)?.paginationMetadata.currentPage ?? 0;
    const breach = { page: how.startPage + pages.length };
    expect(error).toMatchObject({ name: 'PaginationDriftError', lastGoodPage, breach });
    expect(service.changed).toBe(true);
  }
  const [asked, answered] = [service.asked.length, service.answers.length];
  await microtasks(100);
  expect([service.asked.length, service.answers.length, service.underWay]).toEqual([asked, answered, 0]);
}

it(
  'a reading emits the rows that were sent, or an error where the numbers show a change: no silent loss, no duplicate',
  () => fc.assert(fc.asyncProperty(plans, readings, check), { numRuns, seed }),
  60 * 60_000,
);
