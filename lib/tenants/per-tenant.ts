import type { Tenant } from './tenant.js';

/**
 * State kept for each tenant (tokens, limits, keys). It lives as long as the tenant's `stateKey`: a tenant that leaves the
 * registry, or returns with other options, loses it.
 */
export class PerTenant<V extends object> {
  readonly #values = new WeakMap<object, V>();

  get(tenant: Tenant): V | undefined {
    return this.#values.get(tenant.stateKey);
  }

  /** The state of the tenant, created when there is none. */
  getOrCreate(tenant: Tenant, create: () => V): V {
    const known = this.#values.get(tenant.stateKey);
    if (known !== undefined) {
      return known;
    }
    const created = create();
    this.set(tenant, created);
    return created;
  }

  set(tenant: Tenant, value: V): void {
    this.#values.set(tenant.stateKey, value);
  }

  delete(tenant: Tenant): void {
    this.#values.delete(tenant.stateKey);
  }
}
