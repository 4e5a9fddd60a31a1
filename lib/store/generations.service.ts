import { randomBytes } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { Clock } from '../time/clock.js';
import { FairCache } from '../time/fair-cache.js';
import { Outbox } from './outbox.service.js';
import { SharedValues } from './shared-values.service.js';

const KIND = 'generation';

/** Generations share one part of the outbox: no request of a visitor replaces one. */
const EVERY_TENANT = '';

/** Age in ms up to which a value that was read counts as current. An invalidation reaches every process within it. */
const CURRENT = 1_000;

/** Age in ms from which it is read again in the background, so that calls seldom wait for it. */
const RENEW = 500;

/** Values in memory. One that was displaced is read again. */
const MAX = 50_000;

/** Added to the lifetime of a value, in ms: what it invalidates may have been begun an hour before it was kept. */
const MARGIN = 3_600_000;

/** Replaced by `invalidateLookups()` without a tenant. */
export const ALL_LOOKUPS = 'lookups';

/** Replaced by `invalidateLookups()` of a tenant, and when the tenant is forgotten. */
export function lookupsOf(tenant: string): string {
  return `lookups:${tenant}`;
}

/** Replaced when the tenant is forgotten. */
export function tenantForgotten(tenant: string): string {
  return `forgotten:${tenant}`;
}

/** What something belongs to that may be invalidated in another process. */
export interface Generation {
  /** Changes with each invalidation. Only to be compared with another id of the same names. */
  readonly id: string;
  /** There was no invalidation that matters any more. */
  readonly isUnset: boolean;
  /** False where the store was never reached: the id is of this process only. */
  readonly isKnown: boolean;
  /** {@link Clock.now} from which {@link Generations.current} must be asked again. */
  readonly recheckAt: number;
}

/** The generation of everything where there is no store: it never changes. */
const ONLY: Generation = { id: '', isUnset: true, isKnown: true, recheckAt: Number.POSITIVE_INFINITY };

/** In place of a value that could not be read. No value of the store is equal to it. */
const UNREAD = '?';

/** A value as it was read last. */
class Known {
  value = UNREAD;
  /** {@link Clock.now} when the last read of it began. */
  readAt = Number.NEGATIVE_INFINITY;
  private pending: Promise<void> | undefined;

  constructor(readonly name: string) {}

  /** Reads or writes the value. Who needs it meanwhile waits for the read or write that is under way. */
  once(work: () => Promise<void>): Promise<void> {
    this.pending ??= work().finally(() => {
      this.pending = undefined;
    });
    return this.pending;
  }
}

/**
 * Tells every process what it must drop. A generation is a random value in the shared store that is replaced to invalidate what
 * many processes hold. Whoever keeps something reads its generation before it is made, keeps it beside it, and uses it only while
 * the generation is the same.
 *
 * A generation that was never replaced, or long ago, has no value in the store. A value outlives what it invalidates.
 */
@Injectable()
export class Generations {
  private readonly known: FairCache<Known>;
  /** Of values, in ms. */
  private readonly lifetime: number;

  constructor(
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(SharedValues) private readonly values: SharedValues,
    @Inject(Outbox) private readonly outbox: Outbox,
    @Inject(Clock) private readonly clock: Clock,
  ) {
    const { tenantCache, lookupCache } = settings;
    const ages = [tenantCache, ...(lookupCache === false ? [] : [lookupCache])].map(
      ({ ttl, staleIfError }) => ttl + staleIfError,
    );
    this.lifetime = Math.max(...ages) + MARGIN;
    this.known = new FairCache(clock, MAX);
  }

  /** The generation of these names, where all were read within the last second. Synchronous and without timers. */
  current(names: readonly string[]): Generation | undefined {
    if (!this.values.enabled) {
      return ONLY;
    }
    const now = this.clock.now();
    const found: Known[] = [];
    for (const name of names) {
      const known = this.known.get(name);
      if (known === undefined || now - known.readAt >= CURRENT) {
        return undefined;
      }
      if (now - known.readAt >= RENEW) {
        void this.refresh(known);
      }
      found.push(known);
    }
    return generationOf(found);
  }

  /** As {@link current}; reads what is due. While the store is down, the values as they were read last. */
  async read(names: readonly string[]): Promise<Generation> {
    const current = this.current(names);
    if (current !== undefined) {
      return current;
    }
    const now = this.clock.now();
    const found = names.map((name) => this.known.get(name) ?? this.add(name));
    await Promise.all(
      found.filter(({ readAt }) => now - readAt >= CURRENT).map((known) => this.refresh(known)),
    );
    return generationOf(found);
  }

  /**
   * Invalidates what belongs to this name, in every process within a second. While the store is down, the outbox keeps the new
   * value.
   */
  async replace(name: string): Promise<void> {
    if (this.values.enabled) {
      // In place of the former object: a read under way may answer the former value.
      await this.writeNew(this.add(name));
    }
  }

  private add(name: string): Known {
    const known = new Known(name);
    this.known.set(name, known);
    return known;
  }

  private refresh(known: Known): Promise<void> {
    return known.once(async () => {
      const startedAt = this.clock.now();
      // A value that waits in the outbox may replace a newer one of another process. Until then, the generation is unknown.
      const isWaiting = this.outbox.has(KIND, known.name);
      const found = isWaiting ? undefined : await this.values.read(KIND, known.name);
      if (found === undefined) {
        // The store is asked once a second.
        known.readAt = this.clock.now();
        return;
      }
      known.value = typeof found.value === 'string' ? found.value : '';
      known.readAt = startedAt;
    });
  }

  private writeNew(known: Known): Promise<void> {
    return known.once(async () => {
      const { name } = known;
      const startedAt = this.clock.now();
      const value = randomBytes(9).toString('base64url');
      const until = startedAt + this.lifetime;
      await this.outbox.write({ kind: KIND, name, tenant: EVERY_TENANT, value, until });
      known.value = this.outbox.has(KIND, name) ? UNREAD : value;
      known.readAt = startedAt;
    });
  }
}

function generationOf(found: readonly Known[]): Generation {
  return {
    id: found.map(({ value }) => value).join(' '),
    isUnset: found.every(({ value }) => value === ''),
    isKnown: found.every(({ value }) => value !== UNREAD),
    recheckAt: Math.min(...found.map(({ readAt }) => readAt)) + RENEW,
  };
}
