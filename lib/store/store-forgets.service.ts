import { Inject, Injectable } from '@nestjs/common';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import type { SharedForgets } from '../tenants/shared-forgets.interface.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import { ANY_FORGOTTEN, forgottenTenant, GENERATION_MARGIN, lookupsOfTenant } from './generation-names.js';
import { Generations } from './generations.service.js';

const ERA = [ANY_FORGOTTEN];

/**
 * `TenantRegistry.forget` across processes: shared lookups of the tenant are dropped, and a tenant of a source is read again. While no tenant is forgotten, a process reads one value a second, however many
 * tenants it serves. After one was, it reads the mark of each tenant once, when the tenant is next used.
 */
@Injectable()
export class StoreForgets implements SharedForgets {
  readonly #generations: Generations;
  /** Lifetime of marks in ms: they outlive the options that a process may still use. */
  readonly #lifetime: number;
  readonly #lookupLifetime: number | undefined;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(TenantRegistry) registry: TenantRegistry,
    @Inject(Generations) generations: Generations,
  ) {
    const { tenantCache, lookupCache } = settings;
    this.#lifetime = tenantCache.ttl + tenantCache.staleIfError + GENERATION_MARGIN;
    this.#lookupLifetime =
      lookupCache === false ? undefined : lookupCache.ttl + lookupCache.staleIfError + GENERATION_MARGIN;
    this.#generations = generations;
    if (settings.store !== undefined) {
      registry.shareForgets(this);
    }
  }

  era(): string | undefined {
    return this.#generations.current(ERA)?.text;
  }

  async readEra(): Promise<string> {
    return (await this.#generations.stamp(ERA)).text;
  }

  markOf(key: string): Promise<string | undefined> {
    return this.#generations.reread(forgottenTenant(key));
  }

  async announce(key: string, note: (mark: string) => void): Promise<void> {
    if (this.#lookupLifetime !== undefined) {
      await this.#generations.replace(lookupsOfTenant(key), this.#lookupLifetime);
    }
    note(await this.#generations.replace(forgottenTenant(key), this.#lifetime));
    await this.#generations.replace(ANY_FORGOTTEN, this.#lifetime);
  }
}
