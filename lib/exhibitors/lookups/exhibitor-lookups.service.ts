import { Inject, Injectable } from '@nestjs/common';
import { channels, type LookupMessage } from '../../diagnostics/channels.js';
import type { ExhibitorErrorCode } from '../../errors/error-codes.js';
import { isExhibitorError } from '../../errors/is-exhibitor-error.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../../options/check-options.js';
import { Clock } from '../../time/clock.js';
import type { Deadline } from '../../time/deadline.js';
import type { LookupFilter } from '../call-options.interface.js';
import {
  isLookupOf,
  LookupCache,
  lookupKey,
  type CachedLookup,
  type LookupName,
  type LookupSubject,
} from './lookup-cache.js';
import { LookupFlight } from './lookup-flight.js';
import { LookupGenerations } from './lookup-generations.service.js';
import { LookupRequests } from './lookup-requests.service.js';
import type { FoundLookup } from './lookup-search.js';
import { SharedLookups } from './shared-lookups.service.js';

/** Failures for which `staleIfError` applies. */
const OUTAGES: ReadonlySet<ExhibitorErrorCode> = new Set([
  'service_unavailable',
  'deadline_exceeded',
  'rate_limited',
  'token_unavailable',
]);

/** The lookup endpoint (service specification, Endpoints §3), with a cache and one request for concurrent callers. */
@Injectable()
export class ExhibitorLookups {
  readonly #requests: LookupRequests;
  readonly #generations: LookupGenerations;
  readonly #shared: SharedLookups;
  readonly #clock: Clock;
  readonly #cache: LookupCache;
  /** By cache key, the request whose answer will be cached. A request that is not here any more was superseded. */
  readonly #flights = new Map<string, LookupFlight>();

  constructor(
    @Inject(LookupRequests) requests: LookupRequests,
    @Inject(LookupGenerations) generations: LookupGenerations,
    @Inject(SharedLookups) shared: SharedLookups,
    @Inject(Clock) clock: Clock,
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
  ) {
    this.#requests = requests;
    this.#generations = generations;
    this.#shared = shared;
    this.#clock = clock;
    this.#cache = new LookupCache(settings.lookupCache);
  }

  /** Frozen records of the cache, where they are fresh. */
  remembered(subject: LookupSubject): readonly unknown[] | undefined {
    const key = lookupKey(subject);
    const now = this.#clock.now();
    const cached = this.#cache.fresh(key, now);
    if (cached === undefined || (now >= cached.recheckAt && !this.#isCurrent(subject, key, cached))) {
      return undefined;
    }
    return answer(subject, 'hit', cached.records);
  }

  /** Frozen records, from the cache where they are fresh. */
  async find(subject: LookupSubject, deadline: Deadline): Promise<readonly unknown[]> {
    const remembered = this.remembered(subject) ?? (await this.#rechecked(subject, deadline));
    if (remembered !== undefined) {
      return remembered;
    }
    const key = lookupKey(subject);
    const running = this.#flights.get(key);
    const flight = running === undefined || running.isOver ? this.#start(key, subject, deadline) : running;
    try {
      const { records, isShared } = await flight.join(deadline);
      return answer(subject, isShared ? 'hit' : 'miss', records);
    } catch (error) {
      const stale = isOutage(error) ? await this.#stale(key, subject) : undefined;
      if (stale !== undefined) {
        return answer(subject, 'stale', stale);
      }
      publish(subject, 'miss');
      throw error;
    }
  }

  /** Frozen records of a new request. A request that is already under way may be older than this call. */
  async findFresh(subject: LookupSubject, deadline: Deadline): Promise<readonly unknown[]> {
    publish(subject, 'miss');
    const flight = this.#start(lookupKey(subject), subject, deadline, { isFresh: true });
    return (await flight.join(deadline)).records;
  }

  /**
   * Removes cached answers, with a store in every process. Requests under way still answer their callers but are not cached.
   */
  async invalidate(filter: LookupFilter): Promise<void> {
    const everywhere = this.#generations.invalidate(filter);
    this.#cache.forget(filter);
    for (const [key, { name }] of this.#flights) {
      if (isLookupOf(name, filter)) {
        this.#flights.delete(key);
      }
    }
    await everywhere;
  }

  /** True where the answer still belongs to the generations of its lookup, as far as they were read within the last second. */
  #isCurrent(subject: LookupSubject, key: string, cached: CachedLookup): boolean {
    const stamp = this.#generations.current(nameOf(subject));
    if (stamp === undefined) {
      return false;
    }
    if (stamp.text !== cached.stamp) {
      this.#cache.remove(key);
      return false;
    }
    cached.recheckAt = stamp.recheckAt;
    return true;
  }

  /** As {@link remembered}, where the generations must be read first: about once a second. */
  async #rechecked(subject: LookupSubject, deadline: Deadline): Promise<readonly unknown[] | undefined> {
    const cached = this.#cache.fresh(lookupKey(subject), this.#clock.now());
    if (cached === undefined) {
      return undefined;
    }
    await deadline.race(this.#generations.stamp(nameOf(subject)));
    return this.remembered(subject);
  }

  async #stale(key: string, subject: LookupSubject): Promise<readonly unknown[] | undefined> {
    const cached = this.#cache.stale(key, this.#clock.now());
    if (cached === undefined) {
      return undefined;
    }
    const { text } = await this.#generations.stamp(nameOf(subject));
    return text === cached.stamp ? cached.records : undefined;
  }

  #start(key: string, subject: LookupSubject, deadline: Deadline, { isFresh = false } = {}): LookupFlight {
    const name = nameOf(subject);
    const flight = new LookupFlight(name, this.#clock, deadline.remaining(), async (shared) => {
      try {
        const stamp = await shared.race(this.#generations.stamp(name));
        const keep = (found: FoundLookup): void => {
          if (this.#flights.get(key) === flight) {
            const age = { freshFor: found.freshFor, stamp: stamp.text, recheckAt: stamp.recheckAt };
            this.#cache.keep(key, name.tenant, found.answer, this.#clock.now(), age);
          }
        };
        const steps = { ...this.#requests.steps(subject, shared), keepStale: keep };
        const found = isFresh
          ? await this.#shared.ask(subject, stamp, steps)
          : await this.#shared.find(subject, stamp, steps, shared);
        keep(found);
        return { records: found.answer.records, isShared: found.isShared };
      } finally {
        if (this.#flights.get(key) === flight) {
          this.#flights.delete(key);
        }
      }
    });
    this.#flights.set(key, flight);
    return flight;
  }
}

function nameOf({ tenant, eventId, contactEmail }: LookupSubject): LookupName {
  return { tenant: tenant.key, eventId, contactEmail };
}

function isOutage(error: unknown): boolean {
  return isExhibitorError(error) && OUTAGES.has(error.code);
}

function answer(
  subject: LookupSubject,
  outcome: LookupMessage['outcome'],
  records: readonly unknown[],
): readonly unknown[] {
  publish(subject, outcome);
  return records;
}

function publish({ tenant }: LookupSubject, outcome: LookupMessage['outcome']): void {
  if (channels.lookup.hasSubscribers) {
    channels.lookup.publish({ tenant: tenant.key, outcome });
  }
}
