import { Inject, Injectable } from '@nestjs/common';
import { publish, type LookupMessage } from '../../diagnostics/channels.js';
import type { ExhibitorErrorCode } from '../../errors/error-codes.js';
import { isExhibitorError } from '../../errors/is-exhibitor-error.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../../options/check-options.js';
import { ALL_LOOKUPS, Generations, lookupsOf, type Generation } from '../../store/generations.service.js';
import { SharedValues } from '../../store/shared-values.service.js';
import { Clock } from '../../time/clock.js';
import type { Deadline } from '../../time/deadline.js';
import type { LookupFilter } from '../call-options.interface.js';
import { RestClient } from '../rest-client.service.js';
import {
  isLookupOf,
  LookupCache,
  lookupKey,
  nameOfLookup,
  type LookupAnswer,
  type LookupSubject,
} from './lookup-cache.js';
import { LookupEndpoint } from './lookup-endpoint.js';
import { RunningLookup, type FoundLookup } from './running-lookup.js';
import { SharedLookups } from './shared-lookups.js';

/** Failures for which `staleIfError` applies. */
const OUTAGES: ReadonlySet<ExhibitorErrorCode> = new Set([
  'service_unavailable',
  'deadline_exceeded',
  'rate_limited',
  'token_unavailable',
]);

/** A lookup that memory does not answer. */
interface Search {
  readonly subject: LookupSubject;
  /** What the answer will belong to: read before the store or the service is asked. */
  readonly generation: Generation;
  readonly deadline: Deadline;
  /** Caches an answer that is fresh for `freshFor` ms, unless the lookup was superseded or invalidated meanwhile. */
  keep(answer: LookupAnswer, freshFor: number): void;
}

/**
 * The exhibitors of a contact: from memory, else from an equal lookup that is under way, else from the store, else from the
 * service. Records are frozen, since several requests read them.
 */
@Injectable()
export class ExhibitorLookups {
  readonly #cache: LookupCache;
  /** By cache key. A lookup that is not here any more was superseded or invalidated: its answer is not cached. */
  readonly #running = new Map<string, RunningLookup>();
  private readonly endpoint: LookupEndpoint;
  private readonly shared: SharedLookups | undefined;

  constructor(
    @Inject(RestClient) rest: RestClient,
    @Inject(SharedValues) values: SharedValues,
    @Inject(Generations) private readonly generations: Generations,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
  ) {
    this.#cache = new LookupCache(settings.lookupCache, clock);
    this.endpoint = new LookupEndpoint(rest, settings);
    const { lookupCache, secrets } = settings;
    const isShared = values.enabled && lookupCache !== false;
    this.shared = isShared ? new SharedLookups(values, clock, lookupCache, secrets) : undefined;
  }

  /** The records in memory, where they are fresh and known to be of the current generation. Synchronous. */
  remembered(subject: LookupSubject): readonly unknown[] | undefined {
    const cached = this.#cache.fresh(subject);
    if (cached === undefined) {
      return undefined;
    }
    if (this.clock.now() >= cached.recheckAt) {
      const generation = this.generations.current(namesOf(subject));
      if (generation?.id !== cached.generation) {
        return undefined;
      }
      cached.recheckAt = generation.recheckAt;
    }
    report(subject, 'hit');
    return cached.records;
  }

  /** The records, from memory or the store where they are fresh there. While the service fails, an older answer may do. */
  async find(subject: LookupSubject, deadline: Deadline): Promise<readonly unknown[]> {
    const remembered = this.remembered(subject);
    if (remembered !== undefined) {
      return remembered;
    }
    try {
      const { records, isCached } = await this.runningFor(subject, deadline).join(deadline);
      report(subject, isCached ? 'hit' : 'miss');
      return records;
    } catch (error) {
      const stale = isOutage(error) ? await this.stale(subject) : undefined;
      report(subject, stale === undefined ? 'miss' : 'stale');
      if (stale === undefined) {
        throw error;
      }
      return stale;
    }
  }

  /** The records of a new request. A request that is already under way may be older than this call. */
  async findFresh(subject: LookupSubject, deadline: Deadline): Promise<readonly unknown[]> {
    report(subject, 'miss');
    const lookup = this.start(subject, deadline, (search) => this.fromService(search));
    return (await lookup.join(deadline)).records;
  }

  /**
   * Removes cached answers. With a store, it removes all answers of the tenant in every process, or of all tenants where none is
   * named. Requests under way still answer their callers but are not cached.
   */
  async invalidate(filter: LookupFilter): Promise<void> {
    const { tenant } = filter;
    const everywhere = this.generations.replace(tenant === undefined ? ALL_LOOKUPS : lookupsOf(tenant));
    this.#cache.forget(filter);
    for (const [key, { name }] of this.#running) {
      if (isLookupOf(name, filter)) {
        this.#running.delete(key);
      }
    }
    await everywhere;
  }

  /** An equal lookup that is under way, else a new one. */
  private runningFor(subject: LookupSubject, deadline: Deadline): RunningLookup {
    const running = this.#running.get(lookupKey(subject));
    return running?.isOver === false
      ? running
      : this.start(subject, deadline, (search) => this.fromAnywhere(search));
  }

  /** Starts a lookup, which supersedes one that is under way. */
  private start(
    subject: LookupSubject,
    deadline: Deadline,
    work: (search: Search) => Promise<FoundLookup>,
  ): RunningLookup {
    const key = lookupKey(subject);
    const isLatest = (): boolean => this.#running.get(key) === lookup;
    const run = async (limit: Deadline): Promise<FoundLookup> => {
      try {
        // Not before the lookup is among those that an invalidation finds.
        const generation = await limit.race(this.generations.read(namesOf(subject)));
        const keep: Search['keep'] = (answer, freshFor) => {
          if (isLatest()) {
            this.#cache.keep(subject, answer, freshFor, generation);
          }
        };
        return await work({ subject, generation, deadline: limit, keep });
      } finally {
        if (isLatest()) {
          this.#running.delete(key);
        }
      }
    };
    const lookup = new RunningLookup(nameOfLookup(subject), this.clock, deadline.remaining(), run);
    this.#running.set(key, lookup);
    return lookup;
  }

  private async fromAnywhere(search: Search): Promise<FoundLookup> {
    return this.fromMemory(search) ?? (await this.fromStore(search)) ?? this.fromService(search);
  }

  /** The answer in memory, where its generation is the current one after all: that is compared about once a second. */
  private fromMemory({ subject, generation }: Search): FoundLookup | undefined {
    const cached = this.#cache.fresh(subject);
    if (cached?.generation !== generation.id) {
      return undefined;
    }
    cached.recheckAt = generation.recheckAt;
    return { records: cached.records, isCached: true };
  }

  /** The answer of another process, where it is fresh. One that is not is kept for the case that the service fails. */
  private async fromStore({ subject, generation, deadline, keep }: Search): Promise<FoundLookup | undefined> {
    const shared = this.shared && (await deadline.race(this.shared.find(subject, generation)));
    if (shared === undefined) {
      return undefined;
    }
    // Another version of the host may have stored rows that do not fit this one. The service is asked then.
    const answer = await this.endpoint.answerOf(shared.rows, subject, deadline).catch(() => undefined);
    if (answer === undefined) {
      return undefined;
    }
    keep(answer, shared.freshFor);
    return shared.freshFor > 0 ? { records: answer.records, isCached: true } : undefined;
  }

  private async fromService({ subject, generation, deadline, keep }: Search): Promise<FoundLookup> {
    const rows = await this.endpoint.request(subject, deadline);
    const answer = await this.endpoint.answerOf(rows, subject, deadline);
    await this.shared?.set(subject, generation, rows, answer.weight);
    keep(answer, Number.POSITIVE_INFINITY);
    return { records: answer.records, isCached: false };
  }

  /** An older answer that was not invalidated meanwhile, also not by another process. */
  private async stale(subject: LookupSubject): Promise<readonly unknown[] | undefined> {
    const cached = this.#cache.stale(subject);
    if (cached === undefined) {
      return undefined;
    }
    const { id } = await this.generations.read(namesOf(subject));
    return id === cached.generation ? cached.records : undefined;
  }
}

/** Names of the generations that a lookup belongs to. */
function namesOf({ tenant }: LookupSubject): string[] {
  return [ALL_LOOKUPS, lookupsOf(tenant.key)];
}

function isOutage(error: unknown): boolean {
  return isExhibitorError(error) && OUTAGES.has(error.code);
}

function report({ tenant }: LookupSubject, outcome: LookupMessage['outcome']): void {
  publish('lookup', () => ({ tenant: tenant.key, outcome }));
}
