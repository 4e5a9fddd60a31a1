import type { TenantOptions } from './tenant-options.interface.js';

/** A source of tenants that are known only at run time, such as a database of the host. */
export interface TenantSource {
  /** Options of the tenant, or `undefined` if there is none. Called once per key and `tenantCache.ttl`. */
  find(key: string): TenantOptions | undefined | Promise<TenantOptions | undefined>;
}
