import type { TenantOptions } from './tenant-options.interface.js';

/** Tenants that are known only at run time, from a database or an API of the host. */
export interface TenantSource {
  /** Options of the tenant, or `undefined` if there is none. Asked once for each key until `tenantCache.ttl` is up. */
  find(key: string): TenantOptions | undefined | Promise<TenantOptions | undefined>;
}
