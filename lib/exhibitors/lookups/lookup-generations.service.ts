import { Inject, Injectable } from '@nestjs/common';
import { CHECKED_OPTIONS, type CheckedOptions } from '../../options/check-options.js';
import {
  ALL_LOOKUPS,
  GENERATION_MARGIN,
  lookupsOfEvent,
  lookupsOfTenant,
} from '../../store/generation-names.js';
import { Generations, UNSHARED, type Stamp } from '../../store/generations.service.js';
import type { LookupFilter } from '../call-options.interface.js';
import type { LookupName } from './lookup-cache.js';

/**
 * Invalidations of lookups that reach every process within a second. A lookup belongs to three generations: of all lookups, of
 * its tenant, and of its event. Each answer is kept with the values that they had before the service was asked.
 */
@Injectable()
export class LookupGenerations {
  readonly #generations: Generations;
  /** Lifetime of a generation in ms; `undefined` without a cache. */
  readonly #lifetime: number | undefined;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(Generations) generations: Generations,
  ) {
    const { lookupCache } = settings;
    this.#generations = generations;
    this.#lifetime =
      lookupCache === false ? undefined : lookupCache.ttl + lookupCache.staleIfError + GENERATION_MARGIN;
  }

  /** The generations of a lookup, where all of them were read within the last second. Synchronous. */
  current(name: LookupName): Stamp | undefined {
    return this.#lifetime === undefined ? UNSHARED : this.#generations.current(namesOf(name));
  }

  /** As {@link current}; reads those that are due. */
  async stamp(name: LookupName): Promise<Stamp> {
    return this.#lifetime === undefined ? UNSHARED : this.#generations.stamp(namesOf(name));
  }

  /**
   * Invalidates at least the lookups that match the filter. An address has no generation: its event, tenant or all lookups are
   * invalidated. An event without a tenant may be one of any tenant, so that all are.
   */
  async invalidate({ tenant, eventId }: LookupFilter): Promise<void> {
    if (this.#lifetime === undefined) {
      return;
    }
    const wide = tenant === undefined ? ALL_LOOKUPS : lookupsOfTenant(tenant);
    const isOfEvent = tenant !== undefined && eventId !== undefined;
    await this.#generations.replace(isOfEvent ? lookupsOfEvent(tenant, eventId) : wide, this.#lifetime);
  }
}

function namesOf({ tenant, eventId }: LookupName): string[] {
  return [ALL_LOOKUPS, lookupsOfTenant(tenant), lookupsOfEvent(tenant, eventId)];
}
