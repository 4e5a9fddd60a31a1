import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { FaultRange, type Cell, type CellResult } from './fault-range.js';
import { faultTable, OPERATIONS } from './fault-table.js';
import { startServer, type TestServer } from '../support/server.js';

const AT_ONCE = 12;
/** Factor of the deadline that a call may take on a busy machine. */
const TOLERANCE = 1.3;

const table = faultTable('http://unused.invalid');
const results = new Map<string, CellResult>();
const unhandled: unknown[] = [];
const collect = (reason: unknown): void => void unhandled.push(reason);
let range: FaultRange;
let other: TestServer;

beforeAll(async () => {
  process.on('unhandledRejection', collect);
  other = await startServer((_request, response) => void response.end());
  range = await FaultRange.open(`${other.url}/elsewhere`);
  await range.warmUp();
  const waiting = [...range.cells];
  await Promise.all(Array.from({ length: AT_ONCE }, () => work(waiting)));
  await range.settle();
}, 120_000);

afterAll(async () => {
  await range?.close();
  await other?.stop();
  process.off('unhandledRejection', collect);
});

async function work(waiting: Cell[]): Promise<void> {
  for (let cell = waiting.shift(); cell !== undefined; cell = waiting.shift()) {
    results.set(nameOf(cell.row.name, cell.operation), await range.run(cell));
  }
}

function nameOf(fault: string, operation: string): string {
  return `${fault} × ${operation}`;
}

describe('a fault of the service', () => {
  const cells = table.flatMap((row) => OPERATIONS.map((operation) => [row.name, operation] as const));

  it.each(cells)('%s × %s ends as documented', (name, operation) => {
    const cell = range.cells.find(({ row, operation: of }) => row.name === name && of === operation);
    const result = results.get(nameOf(name, operation));
    if (cell === undefined || result === undefined) {
      throw new Error('the cell did not run');
    }
    const { ending, row } = cell;
    const [error] = result.errors;

    expect(result.errors.map(({ code }) => code)).toEqual(ending.code === undefined ? [] : [ending.code]);
    expect(result.requests).toBeGreaterThanOrEqual(ending.requests[0]);
    expect(result.requests).toBeLessThanOrEqual(ending.requests[1]);
    // Without a connection no request can be counted, and the deadline may end an attempt before its request arrives.
    if (error !== undefined && result.requests > 0) {
      const unseen = error.code === 'deadline_exceeded' ? 1 : 0;
      expect([result.requests, result.requests + unseen]).toContain(error.attempts);
    }
    if (error !== undefined) {
      expect(error.tenant).toBe(cell.key);
    }
    if (ending.retryAfterMs !== undefined) {
      expect(error?.retryAfterMs).toBeGreaterThanOrEqual(ending.retryAfterMs[0]);
      expect(error?.retryAfterMs).toBeLessThanOrEqual(ending.retryAfterMs[1]);
    }
    expect(result.ms).toBeGreaterThanOrEqual(ending.atLeastMs ?? 0);
    expect(result.ms).toBeLessThanOrEqual(ending.atMostMs ?? row.deadline * row.calls * TOLERANCE);
    expect(range.openOf(cell)).toBe(0);
  });

  it('is tested with every operation', () => {
    expect(results.size).toBe(cells.length);
    expect(results.size).toBe(table.length * OPERATIONS.length);
  });

  it('never causes a request to another origin', () => {
    expect(other.requests).toEqual([]);
  });

  it('leaves no unhandled rejection', () => {
    expect(unhandled).toEqual([]);
  });
});
