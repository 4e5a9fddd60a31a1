import {
  lookupsOf,
  tenantForgotten,
  type Generation,
  type Generations,
} from '../store/generations.service.js';

/** Tenants that were forgotten, in this process or, with a `store`, in another one. They are known everywhere within a second. */
export class ForgottenTenants {
  readonly #generations: Generations;

  constructor(generations: Generations) {
    this.#generations = generations;
  }

  /** Tells the other processes that a tenant is forgotten. Its lookups in the store are dropped as well. */
  announce(key: string): void {
    void this.#generations.replace(lookupsOf(key));
    void this.#generations.replace(tenantForgotten(key));
  }

  /** The generation of what is read of a tenant from now on, where it is in memory. */
  current(key: string): Generation | undefined {
    return this.#generations.current([tenantForgotten(key)]);
  }

  /** As {@link current}; asks the store. */
  read(key: string): Promise<Generation> {
    return this.#generations.read([tenantForgotten(key)]);
  }
}

/** True where a tenant was forgotten between two generations. Without an id, that was not done or is long past. */
export function isForgotten(before: Generation, now: Generation): boolean {
  return now.isKnown && now.id !== '' && now.id !== before.id;
}
