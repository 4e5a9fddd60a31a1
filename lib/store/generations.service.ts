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

export function tenantForgotten(tenant: string): string {
  return `forgotten:${tenant}`;
}

/** What something belongs to that may be invalidated in another process. */
export interface Generation {
  /** Changes with each invalidation. Only to be compared with another id of the same names. */
  readonly id: string;
  /** There was no invalidation that matters any more. */
  readonly isUnset: boolean;
  /** False where the store was never reached, or has not taken our own value: the id is of this process only. */
  readonly isKnown: boolean;
  /** {@link Clock.now} from which {@link Generations.current} must be asked again. */
  readonly recheckAt: number;
}

/** The generation of everything where there is no store: it never changes. */
const ONLY: Generation = { id: '', isUnset: true, isKnown: true, recheckAt: Number.POSITIVE_INFINITY };

/** What the store has for a name: `unknown` where it has not answered yet, or has not taken our own value. */
type Value = 'unknown' | 'unset' | `random ${string}`;

/** A value as it was read last. */
interface Reading {
  readonly value: Value;
  /** {@link Clock.now} when the read or write began. */
  readonly at: number;
}

/**
 * Tells every process what it must drop. A generation is a random value in the shared store that is replaced to invalidate what
 * many processes hold. Whoever keeps something reads its generation before it is made, keeps it beside it, and uses it only while
 * the generation is the same.
 *
 * A generation that was never replaced, or long ago, has no value in the store. A value outlives what it invalidates. For example,
 * process A keeps a lookup beside `unset`; B replaces the generation with `random x`; within a second A reads that, sees that it is
 * another one, and asks the service again.
 */
@Injectable()
export class Generations {
  private readonly readings: FairCache<Reading>;
  /** By name: the read or write that is under way. Who needs the value meanwhile waits for it. */
  private readonly pending = new Map<string, Promise<Reading>>();
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
    this.readings = new FairCache(clock, MAX);
  }

  /** The generation of these names, where all were read within the last second. Synchronous; what is due is read in the background. */
  current(names: readonly string[]): Generation | undefined {
    if (!this.values.enabled) {
      return ONLY;
    }
    const found = names.map((name) => this.recent(name));
    return found.every((reading) => reading !== undefined) ? generationOf(found) : undefined;
  }

  /** As {@link current}; reads what is due. While the store is down, the values as they were read last. */
  async read(names: readonly string[]): Promise<Generation> {
    const current = this.current(names);
    if (current !== undefined) {
      return current;
    }
    return generationOf(await Promise.all(names.map((name) => this.recent(name) ?? this.refresh(name))));
  }

  /**
   * Invalidates what belongs to this name, in every process within a second. While the store is down, the outbox keeps the new
   * value.
   */
  async replace(name: string): Promise<void> {
    if (this.values.enabled) {
      this.readings.delete(name);
      await this.keep(name, this.writeNew(name));
    }
  }

  private recent(name: string): Reading | undefined {
    const reading = this.readings.get(name);
    if (reading === undefined) {
      return undefined;
    }
    const age = this.clock.now() - reading.at;
    if (age >= RENEW) {
      void this.refresh(name);
    }
    return age < CURRENT ? reading : undefined;
  }

  private refresh(name: string): Promise<Reading> {
    return this.pending.get(name) ?? this.keep(name, this.readStored(name));
  }

  /**
   * Keeps what a read or write finds, unless a later write takes its place: a read under way may answer the former value. `work`
   * never rejects.
   */
  private keep(name: string, work: Promise<Reading>): Promise<Reading> {
    const pending = work.then((reading) => {
      if (this.pending.get(name) === pending) {
        this.pending.delete(name);
        this.readings.set(name, reading);
      }
      return reading;
    });
    this.pending.set(name, pending);
    return pending;
  }

  private async readStored(name: string): Promise<Reading> {
    const startedAt = this.clock.now();
    // A value that waits in the outbox may replace a newer one of another process. Until then, the generation is unknown.
    const isWaiting = this.outbox.has(KIND, name);
    const found = isWaiting ? undefined : await this.values.read(KIND, name);
    if (found === undefined) {
      // As if it was read now, so that a store that is down is not asked at each call.
      return { value: this.readings.get(name)?.value ?? 'unknown', at: this.clock.now() };
    }
    return { value: typeof found.value === 'string' ? `random ${found.value}` : 'unset', at: startedAt };
  }

  private async writeNew(name: string): Promise<Reading> {
    const at = this.clock.now();
    const value = randomBytes(9).toString('base64url');
    await this.outbox.write({ kind: KIND, name, tenant: EVERY_TENANT, value, until: at + this.lifetime });
    return { value: this.outbox.has(KIND, name) ? 'unknown' : `random ${value}`, at };
  }
}

function generationOf(found: readonly Reading[]): Generation {
  return {
    id: found.map(({ value }) => value).join(' '),
    isUnset: found.every(({ value }) => value === 'unset'),
    isKnown: found.every(({ value }) => value !== 'unknown'),
    recheckAt: Math.min(...found.map(({ at }) => at)) + RENEW,
  };
}
