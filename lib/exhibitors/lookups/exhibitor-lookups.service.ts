import { Inject, Injectable } from '@nestjs/common';
import { channels, type LookupMessage } from '../../diagnostics/channels.js';
import type { ExhibitorErrorCode } from '../../errors/error-codes.js';
import { isExhibitorError } from '../../errors/exhibitor.error.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../../options/check-options.js';
import { Clock } from '../../time/clock.js';
import type { Deadline } from '../../time/deadline.js';
import type { LookupFilter } from '../call-options.interface.js';
import { deepFreeze } from '../deep-freeze.js';
import { isLookupOf, LookupCache, lookupKey, type LookupName, type LookupSubject } from './lookup-cache.js';
import { LookupFlight } from './lookup-flight.js';
import { parseLookup } from '../parse-lookup.js';
import { parseRecords } from '../parse-records.js';
import { RestClient } from '../rest-client.service.js';

const TEMPLATE = '/api/v1/exhibitor/event/{eventId}/contactEmail/{contactEmail}';

/** Failures that are the service's own and pass: what `staleIfError` is for. */
const OUTAGES: ReadonlySet<ExhibitorErrorCode> = new Set([
  'service_unavailable',
  'deadline_exceeded',
  'rate_limited',
  'token_unavailable',
]);

/** Endpoint 3 of the service: the exhibitors of a contact, cached and asked for once by many callers. */
@Injectable()
export class ExhibitorLookups {
  readonly #cache: LookupCache;
  /** Of each lookup the flight that may fill the cache. One that is no longer here has been overtaken. */
  readonly #flights = new Map<string, LookupFlight>();

  constructor(
    @Inject(RestClient) private readonly rest: RestClient,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(CHECKED_OPTIONS) private readonly options: CheckedOptions,
  ) {
    this.#cache = new LookupCache(options.settings.lookupCache);
  }

  /** Frozen records, from the cache while they are good. */
  async find(subject: LookupSubject, deadline: Deadline): Promise<readonly unknown[]> {
    const key = lookupKey(subject);
    const cached = this.#cache.fresh(key, this.clock.now());
    if (cached !== undefined) {
      return answer(subject, 'hit', cached);
    }
    const running = this.#flights.get(key);
    const flight =
      running === undefined || running.isAbandoned ? this.#start(key, subject, deadline) : running;
    try {
      return answer(subject, 'miss', await flight.join(deadline));
    } catch (error) {
      const standIn = isOutage(error) ? this.#cache.standIn(key, this.clock.now()) : undefined;
      if (standIn !== undefined) {
        return answer(subject, 'stale', standIn);
      }
      publish(subject, 'miss');
      throw error;
    }
  }

  /** Frozen records as they are now: a request that is already under way may be older than the caller's question. */
  async findFresh(subject: LookupSubject, deadline: Deadline): Promise<readonly unknown[]> {
    publish(subject, 'miss');
    return this.#start(lookupKey(subject), subject, deadline).join(deadline);
  }

  /** Forgets answers, also those under way: whoever waits gets them, the cache does not. */
  forget(filter: LookupFilter): void {
    this.#cache.forget(filter);
    for (const [key, { name }] of this.#flights) {
      if (isLookupOf(name, filter)) {
        this.#flights.delete(key);
      }
    }
  }

  #start(key: string, subject: LookupSubject, deadline: Deadline): LookupFlight {
    const name: LookupName = { ...subject, tenant: subject.tenant.key };
    const flight = new LookupFlight(name, this.clock, deadline.remaining(), async (shared) => {
      try {
        const records = deepFreeze(await this.#ask(subject, shared));
        if (this.#flights.get(key) === flight) {
          this.#cache.keep(key, name, records, this.clock.now());
        }
        return records;
      } finally {
        if (this.#flights.get(key) === flight) {
          this.#flights.delete(key);
        }
      }
    });
    this.#flights.set(key, flight);
    return flight;
  }

  async #ask(subject: LookupSubject, deadline: Deadline): Promise<readonly unknown[]> {
    const { tenant } = subject;
    const rows = parseLookup(await this.#body(subject, deadline), tenant.key);
    const records = parseRecords(rows, this.options.settings.exhibitorSchema, {
      tenant: tenant.key,
      path: '',
    });
    return records instanceof Promise ? deadline.race(records) : records;
  }

  async #body({ tenant, eventId, contactEmail }: LookupSubject, deadline: Deadline): Promise<unknown> {
    const event = encodeURIComponent(eventId);
    const path = `/api/v1/exhibitor/event/${event}/contactEmail/${encodeURIComponent(contactEmail)}`;
    try {
      const { body } = await this.rest.get(
        tenant,
        { operation: 'lookup', path, template: TEMPLATE },
        deadline,
      );
      return body;
    } catch (error) {
      // The service does not say what it answers where no exhibitor matches; 404 is one of the possible answers.
      if (isExhibitorError(error) && error.code === 'not_found') {
        return undefined;
      }
      throw error;
    }
  }
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
