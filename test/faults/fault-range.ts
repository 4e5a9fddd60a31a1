import { firstValueFrom } from 'rxjs';
import { TokenService, isExhibitorError, type ExhibitorError, type TenantOptions } from '../../lib/index.js';
import {
  defaultSeed,
  type ExhibitorSandbox,
  type SandboxRequest,
  type SandboxSeed,
} from '../../lib/testing/index.js';
import { startRestHost, type RestHost } from '../exhibitors/rest-host.js';
import { freePort, startServer, type TestServer } from '../support/server.js';
import { pause } from '../support/wait.js';
import { startSandbox } from '../support/sandbox.js';
import { faultTable, OPERATIONS, type FaultOperation, type FaultRow } from './fault-table.js';

/** One fault of one operation, with its own tenant, so that no circuit, budget or token is shared. */
export interface Cell {
  key: string;
  row: FaultRow;
  operation: FaultOperation;
  /** Where the service is a port that answers nothing. */
  silent?: TestServer;
}

/** The result of a cell. */
export interface CellResult {
  errors: ExhibitorError[];
  requests: number;
  ms: number;
}

/** A sandbox and a host with one tenant for each cell of the table. */
export class FaultRange {
  private constructor(
    readonly cells: readonly Cell[],
    private readonly sandbox: ExhibitorSandbox,
    private readonly host: RestHost,
  ) {}

  static async open(otherOrigin: string): Promise<FaultRange> {
    const cells = faultTable(otherOrigin)
      .flatMap((row) => OPERATIONS.map((operation): Omit<Cell, 'key'> => ({ row, operation })))
      .map((cell, index): Cell => ({ ...cell, key: `cell-${index}` }));
    const sandbox = await startSandbox({ seed: seedFor(cells) });
    const tenants: Record<string, TenantOptions> = {};
    for (const cell of cells) {
      tenants[cell.key] = await tenantOf(cell, sandbox);
    }
    const range = new FaultRange(cells, sandbox, await startRestHost({ tenants }));
    // One by one, so that a cell of the REST API measures its fault only.
    for (const { key, operation } of cells) {
      if (operation !== 'token') {
        await range.#tokens.getToken({ tenant: key });
      }
    }
    return range;
  }

  get #tokens(): TokenService {
    return this.host.context.get(TokenService);
  }

  /** Makes the calls of a cell. */
  async run(cell: Cell): Promise<CellResult> {
    const { row, key: tenant, operation } = cell;
    if (typeof row.fault === 'function') {
      this.sandbox.failNext({ operation, tenant }, row.fault(), row.times);
    }
    const errors: ExhibitorError[] = [];
    const before = this.#requestsOf(cell);
    const began = performance.now();
    for (let call = 0; call < row.calls; call += 1) {
      await this.#call(cell).catch((error: unknown) => {
        if (!isExhibitorError(error)) {
          throw error;
        }
        errors.push(error);
      });
    }
    return { errors, requests: this.#requestsOf(cell) - before, ms: performance.now() - began };
  }

  /** Open requests of a cell, or open connections to its silent port. */
  openOf(cell: Cell): number {
    const open = this.#seen(cell).filter(({ status, aborted }) => status === undefined && !aborted);
    return open.length + (cell.silent?.connections.size ?? 0);
  }

  /** Waits until the service noticed that all connections were closed. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < 100 && this.cells.some((cell) => this.openOf(cell) > 0); turn += 1) {
      await pause(20);
    }
  }

  async close(): Promise<void> {
    await this.host.close();
    await this.sandbox.stop();
    await Promise.all(this.cells.map(({ silent }) => silent?.stop()));
  }

  async #call({ key, operation }: Cell): Promise<unknown> {
    if (operation === 'token') {
      await this.#tokens.invalidate({ tenant: key });
      return this.#tokens.getToken({ tenant: key });
    }
    const exhibitors = this.host.exhibitors.forTenant(key);
    return firstValueFrom<unknown>(
      operation === 'list'
        ? exhibitors.list('regional-2026')
        : exhibitors.lookup('regional-2026', 'olga.one@example.com', { fresh: true }),
    );
  }

  #requestsOf(cell: Cell): number {
    return cell.silent?.requests.length ?? this.#seen(cell).length;
  }

  #seen({ key, operation }: Cell): SandboxRequest[] {
    return this.sandbox.requests.filter(({ operation: of, headers, tenantKey }) => {
      const id = headers['x-tenant-id'];
      return of === operation && (id === undefined ? tenantKey === key : id === `${key}-id`);
    });
  }
}

function seedFor(cells: readonly Cell[]): SandboxSeed {
  const { exhibitors, events, people } = defaultSeed();
  const tenants = cells.map(({ key }) => ({
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
  return { tenants, events, people, exhibitors: Object.fromEntries(cells.map(({ key }) => [key, records])) };
}

async function tenantOf(cell: Cell, sandbox: ExhibitorSandbox): Promise<TenantOptions> {
  const { row, operation, key } = cell;
  const { login: _, ...options } = sandbox.tenantOptions(key);
  const whole = { ...options, http: row.http };
  if (typeof row.fault === 'function') {
    return whole;
  }
  const address = await addressOf(cell);
  return operation === 'token' ? { ...whole, authUrl: address } : { ...whole, baseUrl: address };
}

async function addressOf(cell: Cell): Promise<string> {
  switch (cell.row.fault) {
    case 'unknown name':
      // A label of more than 63 characters is invalid: it fails without a DNS request.
      return `https://${'x'.repeat(64)}.invalid`;
    case 'refused port':
      // Not one that a server has just left: the system may give it to the server of another suite.
      return `http://127.0.0.1:${await freePort()}`;
    default:
      cell.silent = await startServer(() => undefined);
      return cell.silent.url;
  }
}
