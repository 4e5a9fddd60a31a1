/** The walks of `streaming.property.spec.ts` once more over real HTTP, with fewer cases: through transport and tokens. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { lastValueFrom, toArray } from 'rxjs';
import { isExhibitorError } from '../../lib/index.js';
import { ModelService, type Row } from './model-service.js';
import { json, startRestHost, startService, type HandMadeService, type RestHost } from './rest-host.js';

const numRuns = 40;
const never = new AbortController().signal;

let model: ModelService;
let stumbles = new Set<number>();
let service: HandMadeService;
let host: RestHost<Row>;

beforeAll(async () => {
  let requests = 0;
  service = await startService(({ count, page, itemsPerPage, response }) => {
    if (count === 1 || page === 1) requests = 0;
    requests += 1;
    if (stumbles.delete(requests)) {
      response.setHeader('retry-after', '0');
      json(response, {}, 503);
      return undefined;
    }
    const late = (requests * 7) % 5;
    setTimeout(
      () => void model.fetch(page, itemsPerPage, never).then((fetched) => json(response, fetched.page)),
      late,
    );
    return undefined;
  });
  host = await startRestHost<Row>({ tenant: service.tenant });
});
afterAll(async () => {
  await host.close();
  await service.stop();
});

const cases = fc.record({
  rows: fc.integer({ min: 0, max: 300 }),
  clampTo: fc.integer({ min: 5, max: 50 }),
  itemsPerPage: fc.integer({ min: 5, max: 50 }),
  prefetch: fc.integer({ min: 1, max: 16 }),
  stumble: fc.option(fc.integer({ min: 1, max: 10 }), { nil: undefined }),
  changes: fc.array(
    fc.record({
      afterAnswers: fc.integer({ min: 1, max: 12 }),
      kind: fc.constantFrom('insert' as const, 'delete' as const),
      at: fc.nat(300),
    }),
    { maxLength: 2 },
  ),
});

describe('an event read over HTTP', () => {
  it('is read exactly, or fails with pagination_drift where it changed', async () => {
    await fc.assert(
      fc.asyncProperty(cases, async ({ itemsPerPage, prefetch, stumble, ...plan }) => {
        model = new ModelService({ ...plan, latencies: [0], failures: [], retries: [] });
        stumbles = new Set(stumble === undefined ? [] : [stumble]);
        const before = [...model.rows];
        const reading = host.exhibitors.stream('e', { itemsPerPage, prefetch }).pipe(toArray());
        try {
          const rows = await lastValueFrom(reading);
          const [first] = model.answers;
          expect(rows).toHaveLength(first?.metadata.totalCount ?? -1);
          expect(model.answers.every(({ metadata }) => metadata.totalCount === rows.length)).toBe(true);
          if (!model.changed) expect(rows).toEqual(before);
        } catch (error) {
          if (!isExhibitorError(error)) throw error;
          expect(error.code).toBe('pagination_drift');
          expect(model.changed).toBe(true);
        }
      }),
      { numRuns },
    );
  });
});
