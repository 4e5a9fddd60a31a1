import type { ExhibitorIdentity } from './exhibitor-identity.interface.js';

/** An exhibitor record. The service does not publish its fields; narrow them with `exhibitorSchema`. */
export type Exhibitor = Record<string, unknown>;

/** What {@link ExhibitorGuard} found out about a request. */
export interface ExhibitorContext {
  identity: ExhibitorIdentity;
  tenant: string;
  eventId: string;
  /** The user's exhibitors at this event. */
  exhibitors: readonly unknown[];
  /** Id of the exhibitor chosen for this request, where one is. */
  exhibitorId?: string;
}

/** The part of a request that this package reads and writes; Express' and Fastify's requests both fit. */
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
