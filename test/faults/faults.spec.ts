import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { NestFactory } from '@nestjs/core';
import type { INestApplicationContext } from '@nestjs/common';
import { firstValueFrom } from 'rxjs';
import { ExhibitorModule, ExhibitorsService, TokenService } from '../../lib/index.js';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { FaultRange, type Cell, type CellResult } from './fault-range.js';
import { faultTable, OPERATIONS } from './fault-table.js';
import { gzipBomb, largeBody, type AnyFault } from '../support/faults.js';
import { openRequests, startSandbox } from '../support/sandbox.js';
import { startServer, type TestServer } from '../support/server.js';
import { pause } from '../support/wait.js';

const AT_ONCE = 24;
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

/** `http.maxResponseBytes`, in bytes. */
const LIMIT = 2 * 1024 * 1024;

describe('a body far above the limit', () => {
  let sandbox: ExhibitorSandbox;
  let app: INestApplicationContext;
  beforeAll(async () => {
    sandbox = await startSandbox();
    const { tenantId, clientId, clientSecret } = sandbox.tenantOptions('acme');
    const tenant = { tenantId, clientId, clientSecret, baseUrl: sandbox.url, authUrl: sandbox.url };
    const http = { deadline: 30_000, attemptTimeout: 30_000 };
    app = await NestFactory.createApplicationContext(ExhibitorModule.forRoot({ tenant, http }), {
      logger: false,
    });
  });
  afterAll(async () => {
    await app?.close();
    await sandbox?.stop();
  });

  /** Bytes of array buffers, which hold the bodies. */
  const outside = (): number => process.memoryUsage().arrayBuffers;

  /** Makes calls that get the body; returns the peak of the memory it took. */
  async function explode(fault: AnyFault, times: number): Promise<number> {
    await app.get(TokenService).getToken();
    const before = outside();
    let most = before;
    const watch = setInterval(() => {
      most = Math.max(most, outside());
    }, 2);
    for (let call = 0; call < times; call += 1) {
      sandbox.failNext('list', fault);
      const list = firstValueFrom(app.get(ExhibitorsService).list('regional-2026'));
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
