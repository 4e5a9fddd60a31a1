import type { ExecutionContext } from '@nestjs/common';
import type { StandardSchemaV1 } from '@standard-schema/spec';
import type { Exhibitor, ExhibitorRequest } from '../model/exhibitor-request.interface.js';
import type { HttpOptions } from './http-options.interface.js';
import type { SharedStore } from '../model/shared-store.interface.js';
import type { TenantOptions } from './tenant-options.interface.js';
import type { TenantSource } from './tenant-source.interface.js';

/** Who keeps the identity between requests. */
export type SessionMode = 'cookie' | 'host' | 'bearer';

type MaybeAsync<T> = T | Promise<T>;

/** Options of {@link ExhibitorModule}. No option is read from the environment. */
export interface ExhibitorModuleOptions<T = Exhibitor> {
  /** The only tenant; its key is `default`. Exactly one of `tenant` and `tenants` is given. */
  tenant?: TenantOptions;
  /** Tenants by key, or a source of tenants known only at run time. */
  tenants?: Record<string, TenantOptions> | TenantSource;
  /** How long (`ttl` in ms, default 300 000) and how many (`max`, default 10 000) tenants of a source are kept. */
  tenantCache?: { ttl?: number; max?: number };
  /** Key of the tenant a request belongs to. Default: the only tenant, else the identity's. A login route with several tenants needs it. */
  resolveTenant?: (request: ExhibitorRequest, context: ExecutionContext) => MaybeAsync<string | undefined>;
  /** Event a request is about. Default: route parameter `eventId`, else query `eventId`, else the event of the login. */
  resolveEvent?: (request: ExhibitorRequest, context: ExecutionContext) => MaybeAsync<string | undefined>;
  /** Id of the exhibitor a request is about. Default: route parameter `exhibitorId`, else the stored selection, else the only one. */
  resolveExhibitor?: (request: ExhibitorRequest, context: ExecutionContext) => MaybeAsync<string | undefined>;
  /**
   * Strings of at least 32 characters that seal cookies and stored values. The first seals, all open: to rotate,
   * append the new one, deploy everywhere, then put it first. Required with a browser login or a `store`.
   */
  secrets?: string[];
  /** Lifetimes in ms: `loginTtl` (default 600 000) and `identityTtl` (default 28 800 000). `sameSite` of the identity cookie, default `lax`. */
  cookies?: { loginTtl?: number; identityTtl?: number; sameSite?: 'lax' | 'strict' | 'none' };
  /** `cookie` (default): a sealed cookie of ours; `host`: the host's own session; `bearer`: an access token in each request. Or several in order. */
  session?: SessionMode | SessionMode[];
  /** Deadlines, retries and limits. */
  http?: HttpOptions;
  /** If given, every `baseUrl`, `authUrl` and keys URL must be on one of these origins. */
  allowedOrigins?: string[];
  /**
   * Cache of lookups, or `false`. `ttl` in ms (default 60 000), `max` entries (default 10 000); within `staleIfError`
   * ms after its `ttl` (default 0) an answer is still used while the service fails.
   */
  lookupCache?: { ttl?: number; max?: number; staleIfError?: number } | false;
  /** Shares tokens, lookups and the single use of logins between processes. Default: each process for itself. */
  store?: SharedStore;
  /** A Standard Schema (zod, valibot, arktype, …) that checks and types every record. Default: records pass as they are. */
  exhibitorSchema?: StandardSchemaV1<unknown, T>;
  /** The id a user selects an exhibitor by. Default: `exhibitor.id`, else `exhibitor.exhibitorId`. */
  exhibitorId?: (exhibitor: T) => string;
}

/** Implemented by a `useClass` or `useExisting` of `forRootAsync`. */
export interface ExhibitorOptionsFactory {
  createExhibitorOptions(): MaybeAsync<ExhibitorModuleOptions>;
}
