import type { TenantOptions } from './tenant-options.interface.js';

/** A source of tenants that are known only at run time, such as a database of the host. */
export interface TenantSource {
  /**
   * Options of the tenant, or `undefined` if there is none. Called once per key and `tenantCache.ttl`. While it throws, rejects
   * or does not answer, the last good options are used (`tenantCache.staleIfError`).
   *
   * Functions in the options may be new ones at each call: the newest are called, and the tenant keeps its tokens. A new
   * `http.dispatcher` function is called for a new dispatcher; answer the same function to keep the connections.
   */
  find(key: string): TenantOptions | undefined | Promise<TenantOptions | undefined>;
}
