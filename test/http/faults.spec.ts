import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { firstValueFrom } from 'rxjs';
import { TokenService, isExhibitorError, type ExhibitorError, type TenantOptions } from '../../lib/index.js';
import { defaultSeed, type SandboxRequest } from '../../lib/development/testing/index.js';
import { startRestHost, type RestHost } from '../exhibitors/rest-host.js';
import { clockOf } from '../support/clock.js';
import { useSandbox } from '../support/lifetimes.js';
import { unhandledIn } from '../support/messages.js';
import { openRequests } from '../support/sandbox.js';
import { freePort, startServer, type TestServer } from '../support/server.js';
import { eventually } from '../support/wait.js';
import { faultTable, type FaultOperation, type FaultRow } from './fault-table.js';

const AT_ONCE = 24;
/** Factor of the deadline that a call may take on a busy machine. */
const TOLERANCE = 1.3;
/** The three operations with a deadline, retries and limits. */
const OPERATIONS = ['token', 'list', 'lookup'] as const;

/** A fault of one operation, with its own tenant, so that no circuit, budget or token is shared. */
const cells = faultTable('http://unused.invalid').flatMap((_, row) =>
  OPERATIONS.map((operation) => ({ row, operation, tenant: `${operation}-${row}` })),
);
type Cell = (typeof cells)[number];
const sandbox = await useSandbox({ seed: seedFor(cells) });

describe('a fault of the service', () => {
  let table: FaultRow[];
  let host: RestHost;
  let other: TestServer;
  const results = new Map<string, { errors: ExhibitorError[]; ms: number }>();
  let unhandled: unknown[];

  beforeAll(async () => {
    other = await startServer((_request, response) => void response.end());
    table = faultTable(`${other.url}/elsewhere`);
    // Not a port that a server has just left: the system may give it to the server of another suite.
    const refusing = `http://127.0.0.1:${await freePort()}`;
    const tenants = cells.map((cell) => [cell.tenant, tenantOf(cell, refusing)]);
    host = await startRestHost({ tenants: Object.fromEntries(tenants) });
    const tokens = host.context.get(TokenService);
    // One by one, so that a cell of the REST API measures its fault only.
    for (const { tenant, operation } of cells) {
      if (operation !== 'token') {
        await tokens.getToken({ tenant });
      }
    }
    // A younger token is not replaced because of a 401.
    clockOf(host.context).skip(10_000);
    sandbox.clearRequests();
    const waiting = [...cells];
    const work = async (): Promise<void> => {
      for (let cell = waiting.shift(); cell !== undefined; cell = waiting.shift()) {
        await run(cell);
      }
    };
    unhandled = await unhandledIn(async () => {
      await Promise.all(Array.from({ length: AT_ONCE }, work));
      await eventually(() => openRequests(sandbox) === 0).catch(() => undefined);
    });
  }, 120_000);
  afterAll(async () => {
    await host?.close();
    await other?.stop();
  });

  const rowOf = (cell: Cell): FaultRow => table[cell.row] ?? fail();
  const fail = (): never => {
    throw new Error('the cell did not run');
  };

  function tenantOf(cell: Cell, refusing: string): TenantOptions {
    const { fault, http } = rowOf(cell);
    const { login: _, ...options } = sandbox.tenantOptions(cell.tenant);
    // A label of more than 63 characters is invalid: it fails without a DNS request.
    const address = fault === 'unknown name' ? `https://${'x'.repeat(64)}.invalid` : refusing;
    const moved = cell.operation === 'token' ? { authUrl: address } : { baseUrl: address };
    return { ...options, http, ...(typeof fault === 'string' ? moved : {}) };
  }

  /** Makes the call of a cell. */
  async function run(cell: Cell): Promise<void> {
    const { fault, times } = rowOf(cell);
    const { tenant, operation } = cell;
    if (typeof fault !== 'string') {
      sandbox.failNext({ operation, tenant }, typeof fault === 'function' ? fault() : fault, times);
    }
    const errors: ExhibitorError[] = [];
    const began = performance.now();
    await callTo(cell).catch((error: unknown) => {
      if (!isExhibitorError(error)) {
        throw error;
      }
      errors.push(error);
    });
    results.set(tenant, { errors, ms: performance.now() - began });
  }

  async function callTo({ tenant, operation }: Cell): Promise<unknown> {
    const exhibitors = host.exhibitors.forTenant(tenant);
    const tokens = host.context.get(TokenService);
    switch (operation) {
      case 'list':
        return firstValueFrom(exhibitors.list('regional-2026'));
      case 'lookup':
        return firstValueFrom(exhibitors.lookup('regional-2026', 'olga.one@example.com', { fresh: true }));
      default:
        await tokens.invalidate({ tenant });
        return tokens.getToken({ tenant });
    }
  }

  function requestsOf({ tenant, operation }: Cell): SandboxRequest[] {
    return sandbox.requests.filter(({ operation: of, headers, tenantKey }) => {
      const id = headers['x-tenant-id'];
      return of === operation && (id === undefined ? tenantKey === tenant : id === `${tenant}-id`);
    });
  }

  const names = faultTable('').map(({ name }) => name);
  it.each(cells.map((cell) => ({ ...cell, name: names[cell.row] })))(
    '$name × $operation ends as documented',
    (cell) => {
      const { ending, http } = rowOf(cell);
      const { code, requests, retryAfterMs, atLeastMs = 0, atMostMs } = ending(cell.operation);
      const { errors, ms } = results.get(cell.tenant) ?? fail();
      const seen = requestsOf(cell);
      expect(errors.map((one) => one.code)).toEqual(code === undefined ? [] : [code]);
      expectWithin(seen.length, requests);
      expectWithin(ms, [atLeastMs, atMostMs ?? http.deadline * TOLERANCE]);
      expect(openRequests({ requests: seen })).toBe(0);
      for (const error of errors) {
        expect(error.tenant).toBe(cell.tenant);
        // Without a connection no request can be counted, and the deadline may end an attempt before its request arrives.
        const unseen = error.code === 'deadline_exceeded' ? 1 : 0;
        expectWithin(Number(error.attempts), [
          seen.length,
          seen.length === 0 ? Infinity : seen.length + unseen,
        ]);
        if (retryAfterMs !== undefined) {
          expectWithin(Number(error.retryAfterMs), retryAfterMs);
        }
      }
    },
  );

  it('never causes a request to another origin, and leaves no unhandled rejection', () => {
    expect([other.requests, unhandled]).toEqual([[], []]);
  });
});

function expectWithin(value: number, [least, most]: readonly [number, number]): void {
  expect(value).toBeGreaterThanOrEqual(least);
  expect(value).toBeLessThanOrEqual(most);
}

/** A seed with the tenants of the cells, which all have the records of acme. */
function seedFor(all: readonly { tenant: string; operation: FaultOperation }[]) {
  const { exhibitors, events, people } = defaultSeed();
  const tenants = all.map(({ tenant: key }) => ({
    key,
    name: key,
    tenantId: `${key}-id`,
    clientId: `${key}-api`,
    clientSecret: `${key}-secret-of-the-fault-suite`,
    loginClientId: `${key}-web`,
    loginClientSecret: `${key}-web-secret-of-the-fault-suite`,
    publicLoginClientId: `${key}-app`,
  }));
  const records = exhibitors['acme'] ?? {};
  return {
    tenants,
    events,
    people,
    exhibitors: Object.fromEntries(all.map(({ tenant }) => [tenant, records])),
  };
}
