import { Inject, Injectable } from '@nestjs/common';
import { publish, type LookupMessage } from '../../call/channels.js';
import type { ExhibitorErrorCode } from '../../errors/error-codes.js';
import { isExhibitorError } from '../../errors/is-exhibitor-error.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../../config/check-options.js';
import { ProblemLog } from '../../config/problems/problem-log.service.js';
import { Clock } from '../../call/clock.js';
import type { Call, SharedWork } from '../../call/call.js';
import { Calls, mayStartNext, SharedWorks } from '../../call/calls.service.js';
import { Rests } from '../../call/partner.js';
import { createCache, type ExpiringCache } from '../../call/expiring-cache.js';
import type { LookupFilter } from '../call-options.interface.js';
import { exhibitorIdOf, type ExhibitorIdOf } from '../exhibitor-id.js';
import { RestClient } from '../rest-client.service.js';
import { ContactSlots } from './contact-slots.js';
import { LookupEndpoint, type LookupAnswer, type LookupSubject } from './lookup-endpoint.js';

/** Failures for which `staleIfError` applies. */
const OUTAGES: ReadonlySet<ExhibitorErrorCode> = new Set([
  'service_unavailable',
  'deadline_exceeded',
  'rate_limited',
  'token_unavailable',
]);

interface CachedLookup {
  readonly records: readonly unknown[];
  /** {@link Clock.now} until which it is used. After that, only where the service fails. */
  readonly freshUntil: number;
}

/**
 * The exhibitors of a contact: from the cache, else from an equal lookup that is under way, else from the service. Records are
 * frozen, since several requests read them.
 */
@Injectable()
export class ExhibitorLookups {
  readonly #settings: CheckedOptions['settings']['lookupCache'];
  readonly #cache: ExpiringCache<CachedLookup> | undefined;
  /** Lookups under way, for which all callers of equal lookups wait. Only the answer of the latest is cached. */
  readonly #running: SharedWorks<string, readonly unknown[]>;
  readonly #slots = new ContactSlots();
  readonly #endpoint: LookupEndpoint;
  readonly idOf: ExhibitorIdOf;

  constructor(
    @Inject(RestClient) client: RestClient,
    @Inject(Calls) calls: Calls,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Rests) private readonly rests: Rests,
    @Inject(ProblemLog) log: ProblemLog,
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
  ) {
    this.#settings = settings.lookupCache;
    this.#running = new SharedWorks(calls);
    if (settings.lookupCache !== false) {
      const { max, maxBytes } = settings.lookupCache;
      this.#cache = createCache(clock, { max, maxSize: maxBytes });
    }
    const idOf = exhibitorIdOf(settings);
    this.#endpoint = new LookupEndpoint(client, settings.exhibitorSchema === undefined ? idOf : undefined);
    // The endpoint has the function as it is: one object of a reply that it cannot read has no id, which is no fault of the host.
    this.idOf = (record) => {
      try {
        return idOf(record);
      } catch (error) {
        throw log.hostError({ option: 'exhibitorId' }, error);
      }
    };
  }

  /** The records in the cache, where they are fresh. Needs no deadline, and no check: only what was checked is in the cache. */
  remembered(subject: LookupSubject): readonly unknown[] | undefined {
    const cached = this.#cache?.get(keyOf(subject));
    if (cached === undefined || this.clock.now() >= cached.freshUntil) {
      return undefined;
    }
    report(subject, 'hit');
    return cached.records;
  }

  /** The records. While the service fails, an older answer may do (`staleIfError`): at once in the rest after a failure. */
  async find(subject: LookupSubject, caller: Call): Promise<readonly unknown[]> {
    const remembered = this.remembered(subject);
    if (remembered !== undefined) {
      return remembered;
    }
    const key = keyOf(subject);
    const resting = this.rests.left(['lookup', key]) > 0 ? this.#cache?.get(key) : undefined;
    if (resting !== undefined) {
      report(subject, 'stale');
      return resting.records;
    }
    const joined = this.#running.joinable(key);
    const work = joined ?? this.#start(subject, caller);
    // A request that has no reply after so many ms is a failure of the service.
    const patience = Math.min(subject.tenant.http.attemptTimeout, caller.remaining());
    try {
      const found = await caller.join(work);
      report(subject, 'miss');
      return found;
    } catch (error) {
      if (mayStartNext(joined, caller)) {
        return this.find(subject, caller);
      }
      const old = isOutage(error, work.call, patience) ? this.#cache?.get(key) : undefined;
      report(subject, old === undefined ? 'miss' : 'stale');
      if (old === undefined) {
        throw error;
      }
      this.rests.begin(['lookup', key]);
      return old.records;
    }
  }

  /** The records of a new request: one that is under way may be older than this call. */
  async findFresh(subject: LookupSubject, caller: Call): Promise<readonly unknown[]> {
    report(subject, 'miss');
    return caller.join(this.#start(subject, caller));
  }

  /** Removes cached answers. Lookups under way answer their callers, and are not cached. */
  invalidate(filter: LookupFilter): void {
    for (const key of [...(this.#cache?.keys() ?? []), ...this.#running.keys()]) {
      if (matches(key, filter)) {
        this.#cache?.delete(key);
        this.#running.forget(key);
      }
    }
  }

  /** Begins a lookup with a deadline of its own. */
  #start(subject: LookupSubject, caller: Call): SharedWork<readonly unknown[]> {
    const deadline = Math.max(subject.tenant.http.deadline, caller.remaining());
    return this.#running.start(keyOf(subject), deadline, (call) => this.#ask(subject, call));
  }

  async #ask(subject: LookupSubject, call: Call): Promise<readonly unknown[]> {
    call.tenant = subject.tenant.key;
    const answer = await this.#slots.run(subject, call, () => this.#endpoint.find(subject, call));
    const key = keyOf(subject);
    if (this.#running.isLatest(key, call)) {
      this.#keep(key, answer);
    }
    return answer.records;
  }

  #keep(key: string, { records, bytes }: LookupAnswer): void {
    if (this.#settings !== false) {
      const { ttl, staleIfError } = this.#settings;
      const freshUntil = this.clock.now() + ttl;
      this.#cache?.set(key, { records, freshUntil }, { ttl: ttl + staleIfError, size: bytes });
      // A caller with little time may have begun one.
      this.rests.end(['lookup', key]);
    }
  }
}

/**
 * Contains the id of the tenant's state: a tenant that returns with other options finds no earlier answer. Event ids and addresses
 * have no slash.
 */
function keyOf({ tenant, eventId, contactEmail }: LookupSubject): string {
  return `${eventId}/${contactEmail}/${tenant.stateKey.id}/${tenant.key}`;
}

function matches(key: string, filter: LookupFilter): boolean {
  const [eventId, contactEmail, , ...tenant] = key.split('/');
  return (
    (filter.eventId ?? eventId) === eventId &&
    (filter.contactEmail ?? contactEmail) === contactEmail &&
    (filter.tenant === undefined || filter.tenant === tenant.join('/'))
  );
}

/**
 * Whether the service or the token endpoint failed. Our own limits are no outage: a user whose exhibitor was taken away could reach
 * those on purpose.
 */
function isOutage(error: unknown, lookup: Call, patience: number): boolean {
  return isExhibitorError(error) && OUTAGES.has(error.code) && lookup.hasPartnerFailed(patience);
}

function report({ tenant }: LookupSubject, outcome: LookupMessage['outcome']): void {
  publish('lookup', () => ({ tenant: tenant.key, outcome }));
}
