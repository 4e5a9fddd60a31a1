import type { LookupFilter, TenantOptions } from '../../lib/index.js';

/** How a process of the isolation proof is started. */
export interface IsolationConfig {
  kind: 'express' | 'fastify';
  port: number;
  redis: string;
  secrets: string[];
  /** What the tenant source answers, by key. */
  tenants: Record<string, TenantOptions>;
}

/** A call of the services. */
export interface IsolationCall {
  kind: 'token' | 'list' | 'lookup' | 'fresh';
  tenant: string;
  eventId: string;
  contactEmail: string;
  /** Aborts the call after so many ms. */
  abortAfter?: number;
}

/** What a call answered: ids of the exhibitors, or the client of the token. */
export interface IsolationResult {
  ids?: string[];
  /** Whether every exhibitor names the contact of a lookup. */
  isOfContact?: boolean;
  clientId?: string;
  code?: string;
}

/** Commands of `isolation-process.ts`. */
export interface IsolationCommands {
  start(config: IsolationConfig): Promise<void>;
  /** The tenant source answers these options from now on. */
  assign(change: { key: string; options: TenantOptions }): Promise<void>;
  forget(key: string): Promise<void>;
  invalidate(filter: LookupFilter): Promise<void>;
  /** All calls at the same time. */
  run(calls: readonly IsolationCall[]): Promise<IsolationResult[]>;
  close(): Promise<void>;
}
