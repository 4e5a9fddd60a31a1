/** The readings of `streaming.property.spec.ts` over real HTTP, with fewer cases: through transport and tokens. */
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { lastValueFrom, Subscription, toArray } from 'rxjs';
import { isExhibitorError } from '../../lib/index.js';
import { ModelService, type Row } from './model-service.js';
import { startRestHost, startService, type HandMadeService, type RestHost } from './rest-host.js';
import { sendJson } from '../support/server.js';

const numRuns = 40;
const never = new Subscription();

/** By event, so that a late request of one reading cannot reach the model of the next one. */
interface Served {
  model: ModelService;
  /** Number of the request that is answered with 503 first. */
  stumble: number | undefined;
  requests: number;
}

const events = new Map<string, Served>();
let service: HandMadeService;
let host: RestHost<Row>;

beforeAll(async () => {
  service = await startService(({ page, itemsPerPage, url, response }) => {
    const event = events.get(/event\/([^?]+)/.exec(url)?.[1] ?? '');
    if (event === undefined) {
      return {};
    }
    event.requests += 1;
    if (event.requests === event.stumble) {
      response.setHeader('retry-after', '0');
      sendJson(response, {}, 503);
      return undefined;
    }
    const answer = async () => sendJson(response, (await event.model.fetch(page, itemsPerPage, never)).page);
    setTimeout(answer, (event.requests * 7) % 5);
    return undefined;
  });
  host = await startRestHost<Row>({ tenant: service.tenant });
});
afterAll(async () => {
  await host?.close();
  await service?.stop();
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
        const model = new ModelService({ ...plan, latencies: [0], failures: [], retries: [] });
        const event = `event-${events.size}`;
        events.set(event, { model, stumble, requests: 0 });
        const before = [...model.rows];
        const reading = host.exhibitors.stream(event, { itemsPerPage, prefetch }).pipe(toArray());
        try {
          const rows = await lastValueFrom(reading);
          const [first] = model.answers;
          expect(rows).toHaveLength(first?.metadata.totalCount ?? -1);
          expect(model.answers.every(({ metadata }) => metadata.totalCount === rows.length)).toBe(true);
          if (!model.changed) {
            expect(rows).toEqual(before);
          }
        } catch (error) {
          if (!isExhibitorError(error)) {
            throw error;
          }
          expect(error.code).toBe('pagination_drift');
          expect(model.changed).toBe(true);
        }
      }),
      { numRuns },
    );
  });
});
