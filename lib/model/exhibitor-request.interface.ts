import type { ExhibitorIdentity } from './exhibitor-identity.interface.js';

/**
 * Sets the type {@link Exhibitor} of a whole host, which dependency injection cannot infer. It is a promise to the compiler:
 * set `exhibitorSchema` to check the records, too.
 *
 * @example
 * declare module 'nestjs-exhibitor' {
 *   interface ExhibitorRegister { exhibitor: Booth }
 * }
 */
// oxlint-disable-next-line typescript/no-empty-object-type -- a host adds the member
export interface ExhibitorRegister {}

/**
 * An exhibitor record. The service does not publish its fields; narrow them with `exhibitorSchema`, and set the type with
 * {@link ExhibitorRegister} or `ExhibitorsService<MyExhibitor>`.
 */
export type Exhibitor = ExhibitorRegister extends { exhibitor: infer Registered }
  ? Registered
  : Record<string, unknown>;

/**
 * What the guards have found for a request. {@link ExhibitorIdentityGuard} sets `identity` and `tenant`, {@link ExhibitorGuard} all of
 * it. A guard of the host may set another one: the decorators read it instead.
 */
export interface ExhibitorContext {
  /** The user. */
  identity: ExhibitorIdentity;
  /** Key of the tenant. */
  tenant: string;
  /** Id of the event. */
  eventId: string;
  /** The user's exhibitors at this event. */
  exhibitors: readonly unknown[];
  /** Id of the selected or the only exhibitor. */
  exhibitorId?: string;
  /** The selected or the only exhibitor. */
  exhibitor?: unknown;
}

/** The members of a request that this package reads and writes. Requests of Express and Fastify have them. */
export interface ExhibitorRequest {
  method: string;
  url: string;
  originalUrl?: string;
  /** Where Express has mounted the application in another one. */
  baseUrl?: string;
  /** Host with port, as the framework reads it by its setting for trusted proxies. For `resolveTenant`. */
  host?: string;
  headers: Record<string, string | string[] | undefined>;
  params: Record<string, string | undefined>;
  query: Record<string, unknown>;
  body?: unknown;
  session?: unknown;
  user?: unknown;
  /** Set by {@link ExhibitorGuard}. */
  exhibitors?: readonly unknown[];
  /** Set by the guards of this package, or by a guard of the host. */
  exhibitorContext?: Partial<ExhibitorContext>;
}
