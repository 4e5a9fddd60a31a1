import { NestFactory } from '@nestjs/core';
import type { INestApplicationContext } from '@nestjs/common';
import { firstValueFrom } from 'rxjs';
import {
  ExhibitorModule,
  ExhibitorsService,
  TokenService,
  isExhibitorError,
  type ExhibitorError,
} from '../../lib/index.js';
import {
  defaultSeed,
  type ExhibitorSandbox,
  type SandboxRequest,
  type SandboxSeed,
  type SeedTenant,
} from '../../lib/testing/index.js';
import { faultTable, OPERATIONS, type Ending, type FaultOperation, type FaultRow } from './fault-table.js';
import { COOKIE_SECRET } from '../support/host.js';
import { freePort, startServer, type TestServer } from '../support/server.js';
import { pause } from '../support/wait.js';
import { startSandbox } from '../support/sandbox.js';

/** One fault of one operation, with its own tenant, so that no circuit, budget or token is shared. */
export interface Cell {
  key: string;
  row: FaultRow;
  operation: FaultOperation;
  ending: Ending;
}

/** The result of a cell. */
export interface CellResult {
  errors: ExhibitorError[];
  requests: number;
  ms: number;
}

const EVENT = 'regional-2026';
const CONTACT = 'olga.one@example.com';

/** A sandbox and a host with one tenant for each cell of the table. */
export class FaultRange {
  private constructor(
    readonly cells: readonly Cell[],
    readonly sandbox: ExhibitorSandbox,
    private readonly app: INestApplicationContext,
    private readonly silent: ReadonlyMap<string, TestServer>,
  ) {}

  static async open(otherOrigin: string): Promise<FaultRange> {
    const cells = faultTable(otherOrigin).flatMap((row) =>
      OPERATIONS.map((operation): Cell => ({ key: '', row, operation, ending: row.ending(operation) })),
    );
    for (const [index, cell] of cells.entries()) {
      cell.key = `cell-${index}`;
    }
    const sandbox = await startSandbox({ seed: seedFor(cells) });
    const silent = new Map<string, TestServer>();
    const tenants: Record<string, object> = {};
    for (const cell of cells) {
      tenants[cell.key] = await tenantOf(cell, sandbox, silent);
    }
    const imports = ExhibitorModule.forRoot({ tenants: tenants as never, secrets: [COOKIE_SECRET] });
    const app = await NestFactory.createApplicationContext(imports, { logger: ['fatal'] });
    return new FaultRange(cells, sandbox, app, silent);
  }

  /** Fetches the tokens of the REST cells one by one, so that a cell measures its fault only. */
  async warmUp(): Promise<void> {
    const tokens = this.app.get(TokenService);
    for (const { key, operation } of this.cells) {
      if (operation !== 'token') {
        await tokens.getToken({ tenant: key });
      }
    }
  }

  /** Makes the calls of a cell. */
  async run(cell: Cell): Promise<CellResult> {
    if (cell.row.site.at === 'sandbox') {
      const { fault, times } = cell.row.site;
      this.sandbox.failNext({ operation: cell.operation, tenant: cell.key }, fault(), times);
    }
    const errors: ExhibitorError[] = [];
    const before = this.#requestsOf(cell);
    const began = performance.now();
    for (let call = 0; call < cell.row.calls; call += 1) {
      const error = await this.#call(cell).then(
        () => undefined,
        (reason: unknown) => reason,
      );
      if (isExhibitorError(error)) {
        errors.push(error);
      } else if (error !== undefined) {
        throw error;
      }
    }
    const ms = performance.now() - began;
    return { errors, requests: this.#requestsOf(cell) - before, ms };
  }

  /** Open requests of a cell, or open connections to its silent port. */
  openOf(cell: Cell): number {
    const underWay = this.sandbox.requests.filter(
      (request) => this.#isOf(cell, request) && request.status === undefined && !request.aborted,
    );
    return underWay.length + (this.silent.get(cell.key)?.connections.size ?? 0);
  }

  /** Waits until the service noticed that all connections were closed. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < 100 && this.cells.some((cell) => this.openOf(cell) > 0); turn += 1) {
      await pause(20);
    }
  }

  async close(): Promise<void> {
    await this.app.close();
    await this.sandbox.stop();
    for (const port of this.silent.values()) {
      await port.stop();
    }
  }

  #call({ key, operation }: Cell): Promise<unknown> {
    if (operation === 'token') {
      return this.#newToken(key);
    }
    const exhibitors = this.app.get(ExhibitorsService).forTenant(key);
    if (operation === 'list') {
      return firstValueFrom(exhibitors.list(EVENT));
    }
    return firstValueFrom(exhibitors.lookup(EVENT, CONTACT, { fresh: true }));
  }

  async #newToken(tenant: string): Promise<unknown> {
    const tokens = this.app.get(TokenService);
    await tokens.invalidate({ tenant });
    return tokens.getToken({ tenant });
  }

  #requestsOf(cell: Cell): number {
    const silent = this.silent.get(cell.key);
    if (silent !== undefined) {
      return silent.requests.length;
    }
    return this.sandbox.requests.filter((request) => this.#isOf(cell, request)).length;
  }

  #isOf({ key, operation }: Cell, { operation: of, headers, tenantKey }: SandboxRequest): boolean {
    const id = headers['x-tenant-id'];
    return of === operation && (id === undefined ? tenantKey === key : id === `${key}-id`);
  }
}

function seedFor(cells: readonly Cell[]): SandboxSeed {
  const { exhibitors, events, people } = defaultSeed();
  const records = exhibitors['acme'] ?? {};
  return {
    tenants: cells.map(({ key }): SeedTenant => ({
      key,
      name: key,
      tenantId: `${key}-id`,
      clientId: `${key}-api`,
      clientSecret: `${key}-secret-of-the-fault-suite`,
      loginClientId: `${key}-web`,
      loginClientSecret: `${key}-web-secret-of-the-fault-suite`,
      publicLoginClientId: `${key}-app`,
    })),
    events,
    people,
    exhibitors: Object.fromEntries(cells.map(({ key }) => [key, records])),
  };
}

async function tenantOf(
  { key, row, operation }: Cell,
  sandbox: ExhibitorSandbox,
  silent: Map<string, TestServer>,
): Promise<object> {
  const { tenantId, clientId, clientSecret } = sandbox.tenantOptions(key);
  const http = { deadline: row.deadline, attemptTimeout: row.attemptTimeout };
  const whole = { tenantId, clientId, clientSecret, baseUrl: sandbox.url, authUrl: sandbox.url, http };
  if (row.site.at === 'sandbox') {
    return whole;
  }
  const address = await addressOf(row.site.of, key, silent);
  return operation === 'token' ? { ...whole, authUrl: address } : { ...whole, baseUrl: address };
}

async function addressOf(
  of: 'refused port' | 'silent port' | 'unknown name',
  key: string,
  silent: Map<string, TestServer>,
): Promise<string> {
  // A label of more than 63 characters is invalid: it fails without a DNS request.
  if (of === 'unknown name') {
    return `https://${'x'.repeat(64)}.invalid`;
  }
  if (of === 'refused port') {
    // Not one that a server has just left: the system may give it to the server of another suite.
    return `http://127.0.0.1:${await freePort()}`;
  }
  const port = await openSilentPort();
  silent.set(key, port);
  return port.url;
}

/** Accepts requests and answers nothing. */
function openSilentPort(): Promise<TestServer> {
  return startServer(() => undefined);
}
