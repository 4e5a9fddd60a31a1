import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { firstValueFrom } from 'rxjs';
import { TokenService } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { startRestHost, type RestHost } from '../exhibitors/rest-host.js';
import { gzipBomb, largeBody, type AnyFault } from '../support/faults.js';
import { unhandledIn } from '../support/messages.js';
import { openRequests, startSandbox } from '../support/sandbox.js';
import { startServer, type TestServer } from '../support/server.js';
import { pause } from '../support/wait.js';
import { FaultRange, type Cell, type CellResult } from './fault-range.js';
import { faultTable, OPERATIONS } from './fault-table.js';

const AT_ONCE = 24;
/** Factor of the deadline that a call may take on a busy machine. */
const TOLERANCE = 1.3;

describe('a fault of the service', () => {
  const results = new Map<string, { cell: Cell; result: CellResult }>();
  let range: FaultRange;
  let other: TestServer;
  let unhandled: unknown[];

  beforeAll(async () => {
    other = await startServer((_request, response) => void response.end());
    range = await FaultRange.open(`${other.url}/elsewhere`);
    const waiting = [...range.cells];
    const work = async (): Promise<void> => {
      for (let cell = waiting.shift(); cell !== undefined; cell = waiting.shift()) {
        results.set(`${cell.row.name} × ${cell.operation}`, { cell, result: await range.run(cell) });
      }
    };
    unhandled = await unhandledIn(async () => {
      await Promise.all(Array.from({ length: AT_ONCE }, work));
      await range.settle();
    });
  }, 120_000);
  afterAll(async () => {
    await range?.close();
    await other?.stop();
  });

  const table = faultTable('http://unused.invalid');
  const cells = table.flatMap(({ name }) => OPERATIONS.map((operation) => `${name} × ${operation}`));

  it.each(cells)('%s ends as documented', (name) => {
    const found = results.get(name);
    if (found === undefined) {
      throw new Error('the cell did not run');
    }
    const { cell, result } = found;
    const { row, operation, key } = cell;
    const { code, requests, retryAfterMs, atLeastMs = 0, atMostMs } = row.ending(operation);
    const [error] = result.errors;
    expect(result.errors.map((one) => one.code)).toEqual(code === undefined ? [] : [code]);
    expectWithin(result.requests, requests);
    expectWithin(result.ms, [atLeastMs, atMostMs ?? row.http.deadline * row.calls * TOLERANCE]);
    expect(range.openOf(cell)).toBe(0);
    if (error !== undefined) {
      expect(error.tenant).toBe(key);
    }
    // Without a connection no request can be counted, and the deadline may end an attempt before its request arrives.
    if (error !== undefined && result.requests > 0) {
      const unseen = error.code === 'deadline_exceeded' ? 1 : 0;
      expectWithin(Number(error.attempts), [result.requests, result.requests + unseen]);
    }
    if (retryAfterMs !== undefined) {
      expectWithin(Number(error?.retryAfterMs), retryAfterMs);
    }
  });

  it('is tested with every operation, never causes a request to another origin, and leaves no unhandled rejection', () => {
    expect([...results.keys()].toSorted()).toEqual(cells.toSorted());
    expect([other.requests, unhandled]).toEqual([[], []]);
  });
});

function expectWithin(value: number, [least, most]: readonly [number, number]): void {
  expect(value).toBeGreaterThanOrEqual(least);
  expect(value).toBeLessThanOrEqual(most);
}

/** `http.maxResponseBytes`, in bytes. */
const LIMIT = 2 * 1024 * 1024;

describe('a body far above the limit', () => {
  let sandbox: ExhibitorSandbox;
  let host: RestHost;
  beforeAll(async () => {
    sandbox = await startSandbox();
    const http = { deadline: 30_000, attemptTimeout: 30_000 };
    host = await startRestHost({ tenant: sandbox.tenantOptions('acme'), http });
    await host.context.get(TokenService).getToken();
  });
  afterAll(async () => {
    await host?.close();
    await sandbox?.stop();
  });

  /** Makes calls that get the body; returns the peak of the memory of array buffers, which hold the bodies. */
  async function explode(fault: AnyFault, times: number): Promise<number> {
    const outside = (): number => process.memoryUsage().arrayBuffers;
    const before = outside();
    let most = before;
    const watch = setInterval(() => {
      most = Math.max(most, outside());
    }, 2);
    for (let call = 0; call < times; call += 1) {
      sandbox.failNext('list', fault);
      const list = firstValueFrom(host.exhibitors.list('regional-2026'));
      await expect(list).rejects.toMatchObject({ code: 'malformed_response', attempts: 1 });
    }
    clearInterval(watch);
    return most - before;
  }

  it.each<[string, AnyFault]>([
    ['a gzip bomb of 30 MB', gzipBomb(30e6)],
    ['50 MB', largeBody(50e6)],
  ])('is dropped at the limit, each time: %s', async (_what, fault) => {
    await explode(fault, 1);
    // Dropped chunks wait for the garbage collector; a body that is kept would be far larger.
    expect(await explode(fault, 3)).toBeLessThan(20 * LIMIT);
    await pause(100);
    expect(openRequests(sandbox)).toBe(0);
  });
});
