import type { Exhibitor, ExhibitorIdentity } from '../../index.js';

/** What the services and guards of a test find instead of the service and the provider. Everything is optional. */
export interface ExhibitorTestingWorld<T = Exhibitor> {
  /** Lets the module start with `NODE_ENV=production`, where every request is logged in. Default false. */
  allowInProduction?: boolean;
  /**
   * Key of the tenant of every call and request that names none. Default `default`. A request names its tenant by the route
   * parameter `tenant`, or by its identity. Every key is a tenant.
   */
  tenant?: string;
  /** Event of a request that names none by the route parameter or the query `eventId`, and of a user without an `eventId` of its own. */
  eventId?: string;
  /** The user who is logged in; `null`: nobody. Default: a user with the e-mail address `user@example.com`. */
  identity?: Partial<ExhibitorIdentity> | null;
  /** Exhibitors by event. An event that is not here does not exist: `not_found`. */
  events?: Record<string, readonly T[]>;
  /**
   * Exhibitors of a contact: by e-mail address, then by event, as records or as ids of records of `events`. Default: a user has
   * no exhibitor, which is 403 at `ExhibitorGuard`.
   */
  contacts?: Record<string, Record<string, readonly (string | T)[]>>;
  /** Id of an exhibitor, as the option `exhibitorId` of the module. Default: `id`, else `exhibitorId`. */
  exhibitorId?: (exhibitor: T) => string;
}

/** Methods that {@link ExhibitorTestingBackend.failNext} lets fail. `stream` includes `iterate`, and `pages` `iteratePages`. */
export type ExhibitorTestingMethod = 'list' | 'pages' | 'stream' | 'snapshot' | 'lookup' | 'token';
