import type { ExhibitorIdentity } from './exhibitor-identity.interface.js';

/** An exhibitor record. The service does not publish its fields; narrow them with `exhibitorSchema`. */
export type Exhibitor = Record<string, unknown>;

/**
 * Result of {@link ExhibitorGuard} for a request. A guard of the host may set another one: the decorators read it instead.
 */
export interface ExhibitorContext {
  identity: ExhibitorIdentity;
  tenant: string;
  eventId: string;
  /** The user's exhibitors at this event. */
  exhibitors: readonly unknown[];
  /** Id of the selected or the only exhibitor. */
  exhibitorId?: string;
}

/** The members of a request that this package reads and writes. Requests of Express and Fastify have them. */
export interface ExhibitorRequest {
  method: string;
  url: string;
  originalUrl?: string;
  headers: Record<string, string | string[] | undefined>;
  params: Record<string, string | undefined>;
  query: Record<string, unknown>;
  body?: unknown;
  session?: unknown;
  user?: unknown;
  exhibitors?: readonly unknown[];
  exhibitorContext?: ExhibitorContext;
}
