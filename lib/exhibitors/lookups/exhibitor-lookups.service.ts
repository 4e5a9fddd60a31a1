import { Inject, Injectable } from '@nestjs/common';
import { publish, type LookupMessage } from '../../diagnostics/channels.js';
import type { ExhibitorErrorCode } from '../../errors/error-codes.js';
import { isExhibitorError } from '../../errors/is-exhibitor-error.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../../options/check-options.js';
import { ALL_LOOKUPS, Generations, lookupsOf, type Generation } from '../../store/generations.service.js';
import { SharedValues } from '../../store/shared-values.service.js';
import { Clock } from '../../time/clock.js';
import type { Deadline } from '../../time/deadline.js';
import { withTimeout } from '../../time/with-timeout.js';
import type { LookupFilter } from '../call-options.interface.js';
import type { ExhibitorIdOf } from '../exhibitor-id.js';
import { RestClient } from '../rest-client.service.js';
import { LookupCache, type LookupAnswer, type LookupSubject } from './lookup-cache.js';
import { LookupEndpoint } from './lookup-endpoint.js';
import { RunningLookups, type FoundLookup, type StartedLookup } from './running-lookups.js';
import { missUnlessSoon, SharedLookups } from './shared-lookups.js';

/** Failures for which `staleIfError` applies. */
const OUTAGES: ReadonlySet<ExhibitorErrorCode> = new Set([
  'service_unavailable',
  'deadline_exceeded',
  'rate_limited',
  'token_unavailable',
]);

/** What a lookup that failed may wait for the store after its deadline, in ms. */
const AFTER_DEADLINE = 100;

/** The generation of an answer that was asked for before the store had told its generation. It equals no other. */
const UNKNOWN: Generation = { id: 'unknown', isUnset: false, isKnown: false, recheckAt: -Infinity };

/**
 * The exhibitors of a contact: from memory, else from an equal lookup that is under way, else from the store, else from the
 * service. Records are frozen, since several requests read them.
 */
@Injectable()
export class ExhibitorLookups {
  readonly #cache: LookupCache;
  readonly #running: RunningLookups;
  readonly idOf: ExhibitorIdOf;
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
    this.#running = new RunningLookups(clock);
    this.endpoint = new LookupEndpoint(rest, settings);
    this.idOf = this.endpoint.idOf;
    const { lookupCache, secrets } = settings;
    const isShared = values.enabled && lookupCache !== false;
    this.shared = isShared ? new SharedLookups(values, clock, lookupCache, secrets) : undefined;
  }

  /** The records in memory, where they are fresh and known to be of the current generation. Synchronous. */
  remembered(subject: LookupSubject): readonly unknown[] | undefined {
    const records = this.fromMemory(subject);
    if (records !== undefined) {
      report(subject, 'hit');
    }
    return records;
  }

  /** The records, from memory or the store where they are fresh there. While the service fails, an older answer may do. */
  async find(subject: LookupSubject, deadline: Deadline): Promise<readonly unknown[]> {
    const remembered = this.remembered(subject);
    if (remembered !== undefined) {
      return remembered;
    }
    try {
      const { records, isCached } = await this.#running.join(subject, deadline, this.fromAnywhere);
      report(subject, isCached ? 'hit' : 'miss');
      return records;
    } catch (error) {
      const stale = isOutage(error) ? await this.stale(subject, deadline) : undefined;
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
    return (await this.#running.start(subject, deadline, this.fromServiceOnly)).records;
  }

  /**
   * Removes cached answers. With a store, it removes all answers of the tenant in every process, or of all tenants where none is
   * named. Requests under way still answer their callers but are not cached.
   */
  async invalidate(filter: LookupFilter): Promise<void> {
    const { tenant } = filter;
    const everywhere = this.generations.replace(tenant === undefined ? ALL_LOOKUPS : lookupsOf(tenant));
    this.#cache.forget(filter);
    this.#running.forget(filter);
    await everywhere;
  }

  private readonly fromAnywhere = async (lookup: StartedLookup): Promise<FoundLookup> => {
    const generation = await this.generationOf(lookup);
    const records = this.fromMemory(lookup.subject, generation);
    if (records !== undefined) {
      return { records, isCached: true };
    }
    return (await this.fromStore(lookup, generation)) ?? this.fromService(lookup, generation);
  };

  private readonly fromServiceOnly = async (lookup: StartedLookup): Promise<FoundLookup> =>
    this.fromService(lookup, await this.generationOf(lookup));

  /** What the answer will belong to: read before the store or the service is asked. */
  private async generationOf({ subject, deadline }: StartedLookup): Promise<Generation> {
    const names = namesOf(subject);
    return (
      this.generations.current(names) ??
      (await missUnlessSoon(this.generations.read(names), deadline)) ??
      UNKNOWN
    );
  }

  /**
   * The answer in memory, where its generation is the current one: that is compared about twice a second.
   *
   * @param read the current generation, where the caller has read it
   */
  private fromMemory(subject: LookupSubject, read?: Generation): readonly unknown[] | undefined {
    const cached = this.#cache.fresh(subject);
    if (cached === undefined) {
      return undefined;
    }
    if (this.clock.now() >= cached.recheckAt) {
      const generation = read ?? this.generations.current(namesOf(subject));
      if (generation?.id !== cached.generation) {
        return undefined;
      }
      cached.recheckAt = generation.recheckAt;
    }
    return cached.records;
  }

  /** The answer of another process, where it is fresh. One that is not is kept for the case that the service fails. */
  private async fromStore(lookup: StartedLookup, generation: Generation): Promise<FoundLookup | undefined> {
    const { subject, deadline } = lookup;
    const shared = this.shared && (await missUnlessSoon(this.shared.find(subject, generation), deadline));
    if (shared === undefined) {
      return undefined;
    }
    // Another version of the host may have stored rows that do not fit this one. The service is asked then.
    const answer = await this.endpoint.answerOf(shared.rows, subject, deadline).catch(() => undefined);
    if (answer === undefined) {
      return undefined;
    }
    this.keep(lookup, answer, generation, shared.freshFor);
    return shared.freshFor > 0 ? { records: answer.records, isCached: true } : undefined;
  }

  private async fromService(lookup: StartedLookup, generation: Generation): Promise<FoundLookup> {
    const { subject, deadline } = lookup;
    const rows = await this.endpoint.request(subject, deadline);
    const answer = await this.endpoint.answerOf(rows, subject, deadline);
    this.keep(lookup, answer, generation);
    if (this.shared !== undefined) {
      // Before the caller has its answer, where the store is fast: then a next call in another process finds it.
      await missUnlessSoon(this.shared.set(subject, generation, rows, answer.weight), deadline);
    }
    return { records: answer.records, isCached: false };
  }

  /** Caches an answer that is fresh for `freshFor` ms, unless its lookup was superseded or invalidated. */
  private keep(
    lookup: StartedLookup,
    answer: LookupAnswer,
    generation: Generation,
    freshFor = Number.POSITIVE_INFINITY,
  ): void {
    if (this.#running.isLatest(lookup)) {
      this.#cache.keep(lookup.subject, answer, freshFor, generation);
    }
  }

  /** An older answer that was not invalidated meanwhile, also not by another process; none where the store is too slow to tell. */
  private async stale(subject: LookupSubject, deadline: Deadline): Promise<readonly unknown[] | undefined> {
    const cached = this.#cache.stale(subject);
    if (cached === undefined) {
      return undefined;
    }
    const wait = Math.max(AFTER_DEADLINE, deadline.remaining());
    const now = await withTimeout(wait, () => this.generations.read(namesOf(subject))).catch(() => undefined);
    return now?.id === cached.generation ? cached.records : undefined;
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
