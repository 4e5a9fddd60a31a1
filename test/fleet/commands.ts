import type { LookupFilter, TenantOptions } from '../../lib/index.js';

/** How a process of the fleet is started. */
export interface ProcessConfig {
  kind: 'express' | 'fastify';
  /** Default: any. */
  port?: number;
  /** The store and its client. Default: none. */
  redis?: { url: string; client: 'redis' | 'ioredis' };
  secrets: readonly string[];
  /** What the tenant source answers, by key. */
  tenants: Record<string, TenantOptions>;
}

/** A call of the package. */
export interface ProcessCall {
  kind: 'token' | 'list' | 'stream' | 'snapshot' | 'lookup' | 'fresh';
  tenant: string;
  eventId: string;
  contactEmail: string;
  /** Aborts the call after so many ms. */
  abortAfter?: number;
}

/** What a call answered: ids of the exhibitors, the client of the token, or the code of its error. */
export interface ProcessResult {
  ids?: string[];
  /** Whether every exhibitor names the contact of a lookup. */
  isOfContact?: boolean;
  clientId?: string;
  code?: string;
  /** Duration in ms. */
  ms: number;
}

/** Calls for a time: each of them again and again, with a pause in between, both in ms. */
export interface ProcessLoad {
  calls: readonly ProcessCall[];
  duration: number;
  pause: number;
}

/** Commands of `process.ts`. */
export interface ProcessCommands {
  start(config: ProcessConfig): Promise<void>;
  /** All calls at the same time. */
  run(calls: readonly ProcessCall[]): Promise<ProcessResult[]>;
  load(load: ProcessLoad): Promise<ProcessResult[]>;
  /** The tenant source answers these options from now on. */
  assign(change: { key: string; options: TenantOptions }): Promise<void>;
  forget(key: string): Promise<void>;
  invalidate(filter: LookupFilter): Promise<void>;
  /** Its clock is ahead by so many ms more. */
  skip(ms: number): Promise<void>;
}

/** A message that was not asked for: the process has taken a connection from this client port. */
export interface ConnectionNotice {
  accepted?: number;
}
