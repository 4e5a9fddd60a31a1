import { Inject, Injectable } from '@nestjs/common';
import { publish, type LookupMessage } from '../../diagnostics/channels.js';
import type { ExhibitorErrorCode } from '../../errors/error-codes.js';
import { isExhibitorError } from '../../errors/is-exhibitor-error.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../../options/check-options.js';
import { ALL_LOOKUPS, Generations, lookupsOf, type Generation } from '../../store/generations.service.js';
import { Clock } from '../../time/clock.js';
import type { Deadline } from '../../time/deadline.js';
import type { LookupFilter } from '../call-options.interface.js';
import {
  isLookupOf,
  LookupCache,
  lookupKey,
  type CachedLookup,
  type LookupAnswer,
  type LookupName,
  type LookupSubject,
} from './lookup-cache.js';
import { LookupEndpoint } from './lookup-endpoint.service.js';
import { RunningLookup, type FoundLookup } from './running-lookup.js';
import { SharedLookups } from './shared-lookups.service.js';

/** Failures for which `staleIfError` applies. */
const OUTAGES: ReadonlySet<ExhibitorErrorCode> = new Set([
  'service_unavailable',
  'deadline_exceeded',
  'rate_limited',
  'token_unavailable',
]);

/** A lookup that is not answered from memory. */
interface Search {
  readonly subject: LookupSubject;
  /** What the answer will belong to: it is read before the service is asked. */
  readonly generation: Generation;
  readonly deadline: Deadline;
  /** Caches an answer for `freshFor` ms, unless the lookup was superseded or invalidated meanwhile. */
  keep(answer: LookupAnswer, freshFor: number): void;
}

/** The lookup endpoint (service specification, Endpoints §3), with a cache and one request for concurrent callers. */
@Injectable()
export class ExhibitorLookups {
  readonly #endpoint: LookupEndpoint;
  readonly #generations: Generations;
  readonly #shared: SharedLookups;
  readonly #clock: Clock;
  readonly #cache: LookupCache;
  /** By cache key, the lookup whose answer will be cached. One that is not here any more was superseded or invalidated. */
  readonly #running = new Map<string, RunningLookup>();

  constructor(
    @Inject(LookupEndpoint) endpoint: LookupEndpoint,
    @Inject(Generations) generations: Generations,
    @Inject(SharedLookups) shared: SharedLookups,
    @Inject(Clock) clock: Clock,
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
  ) {
    this.#endpoint = endpoint;
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
    return reported(subject, 'hit', cached.records);
  }

  /** Frozen records, from the cache where they are fresh. */
  async find(subject: LookupSubject, deadline: Deadline): Promise<readonly unknown[]> {
    const remembered = this.remembered(subject) ?? (await this.#rechecked(subject, deadline));
    if (remembered !== undefined) {
      return remembered;
    }
    const key = lookupKey(subject);
    const running = this.#running.get(key);
    const lookup =
      running === undefined || running.isOver
        ? this.#start(
            subject,
            deadline,
            async (search) => (await this.#fromStore(search)) ?? this.#fromService(search),
          )
        : running;
    try {
      const { records, isShared } = await lookup.join(deadline);
      return reported(subject, isShared ? 'hit' : 'miss', records);
    } catch (error) {
      const stale = isOutage(error) ? await this.#stale(key, subject) : undefined;
      if (stale !== undefined) {
        return reported(subject, 'stale', stale);
      }
      publish('lookup', () => ({ tenant: subject.tenant.key, outcome: 'miss' }));
      throw error;
    }
  }

  /** Frozen records of a new request. A request that is already under way may be older than this call. */
  async findFresh(subject: LookupSubject, deadline: Deadline): Promise<readonly unknown[]> {
    publish('lookup', () => ({ tenant: subject.tenant.key, outcome: 'miss' }));
    const lookup = this.#start(subject, deadline, (search) => this.#fromService(search));
    return (await lookup.join(deadline)).records;
  }

  /**
   * Removes cached answers. With a store, it removes all answers of the tenant in every process, or of all tenants where none is
   * named. Requests under way still answer their callers but are not cached.
   */
  async invalidate(filter: LookupFilter): Promise<void> {
    const { tenant } = filter;
    const everywhere = this.#generations.replace(tenant === undefined ? ALL_LOOKUPS : lookupsOf(tenant));
    this.#cache.forget(filter);
    for (const [key, { name }] of this.#running) {
      if (isLookupOf(name, filter)) {
        this.#running.delete(key);
      }
    }
    await everywhere;
  }

  /** True where the answer is known to belong to the current generation. */
  #isCurrent(subject: LookupSubject, key: string, cached: CachedLookup): boolean {
    const generation = this.#generations.current(generationsOf(subject));
    if (generation === undefined) {
      return false;
    }
    if (generation.id !== cached.generation) {
      this.#cache.remove(key);
      return false;
    }
    cached.recheckAt = generation.recheckAt;
    return true;
  }

  /** As {@link remembered}, where the generation must be read first: about once a second. */
  async #rechecked(subject: LookupSubject, deadline: Deadline): Promise<readonly unknown[] | undefined> {
    const cached = this.#cache.fresh(lookupKey(subject), this.#clock.now());
    if (cached === undefined) {
      return undefined;
    }
    await deadline.race(this.#generations.read(generationsOf(subject)));
    return this.remembered(subject);
  }

  async #stale(key: string, subject: LookupSubject): Promise<readonly unknown[] | undefined> {
    const cached = this.#cache.stale(key, this.#clock.now());
    if (cached === undefined) {
      return undefined;
    }
    const { id } = await this.#generations.read(generationsOf(subject));
    return id === cached.generation ? cached.records : undefined;
  }

  #start(
    subject: LookupSubject,
    deadline: Deadline,
    work: (search: Search) => Promise<FoundLookup>,
  ): RunningLookup {
    const key = lookupKey(subject);
    const name = nameOf(subject);
    const lookup = new RunningLookup(name, this.#clock, deadline.remaining(), async (limit) => {
      try {
        const generation = await limit.race(this.#generations.read(generationsOf(subject)));
        const keep: Search['keep'] = (answer, freshFor) => {
          if (this.#running.get(key) === lookup) {
            const age = { freshFor, generation: generation.id, recheckAt: generation.recheckAt };
            this.#cache.keep(key, name.tenant, answer, this.#clock.now(), age);
          }
        };
        return await work({ subject, generation, deadline: limit, keep });
      } finally {
        if (this.#running.get(key) === lookup) {
          this.#running.delete(key);
        }
      }
    });
    this.#running.set(key, lookup);
    return lookup;
  }

  /** The answer of another process, where it is fresh. One that is not is kept for the case that the service fails. */
  async #fromStore({ subject, generation, deadline, keep }: Search): Promise<FoundLookup | undefined> {
    const shared = await deadline.race(this.#shared.find(subject, generation));
    if (shared === undefined) {
      return undefined;
    }
    // Another version of the host may have stored rows that do not fit this one. The service is asked then.
    const answer = await this.#endpoint.answerOf(shared.rows, subject, deadline).catch(() => undefined);
    if (answer === undefined) {
      return undefined;
    }
    keep(answer, shared.freshFor);
    return shared.freshFor > 0 ? { records: answer.records, isShared: true } : undefined;
  }

  async #fromService({ subject, generation, deadline, keep }: Search): Promise<FoundLookup> {
    const rows = await this.#endpoint.request(subject, deadline);
    const answer = await this.#endpoint.answerOf(rows, subject, deadline);
    await this.#shared.set(subject, generation, rows, answer.weight);
    keep(answer, Number.POSITIVE_INFINITY);
    return { records: answer.records, isShared: false };
  }
}

function generationsOf({ tenant }: LookupSubject): string[] {
  return [ALL_LOOKUPS, lookupsOf(tenant.key)];
}

function nameOf({ tenant, eventId, contactEmail }: LookupSubject): LookupName {
  return { tenant: tenant.key, eventId, contactEmail };
}

function isOutage(error: unknown): boolean {
  return isExhibitorError(error) && OUTAGES.has(error.code);
}

function reported(
  subject: LookupSubject,
  outcome: LookupMessage['outcome'],
  records: readonly unknown[],
): readonly unknown[] {
  publish('lookup', () => ({ tenant: subject.tenant.key, outcome }));
  return records;
}
