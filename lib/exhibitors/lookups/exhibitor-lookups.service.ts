import { Inject, Injectable } from '@nestjs/common';
import { channels, type LookupMessage } from '../../diagnostics/channels.js';
import type { ExhibitorErrorCode } from '../../errors/error-codes.js';
import { isExhibitorError } from '../../errors/exhibitor.error.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../../options/check-options.js';
import { Clock } from '../../time/clock.js';
import type { Deadline } from '../../time/deadline.js';
import type { LookupFilter } from '../call-options.interface.js';
import { RestClient } from '../rest-client.service.js';
import { ContactSlots } from './contact-slots.js';
import {
  isLookupOf,
  LookupCache,
  lookupKey,
  type LookupAnswer,
  type LookupName,
  type LookupSubject,
} from './lookup-cache.js';
import { LookupFlight } from './lookup-flight.js';
import { prepareRecords } from './prepare-records.js';
import { readLookup, type LookupRules } from './read-lookup.js';

const TEMPLATE = '/api/v1/exhibitor/event/{eventId}/contactEmail/{contactEmail}';

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
  readonly #rest: RestClient;
  readonly #clock: Clock;
  readonly #settings: LookupRules;
  readonly #cache: LookupCache;
  readonly #slots = new ContactSlots();
  /** By cache key, the request whose answer will be cached. A request that is not here any more was superseded. */
  readonly #flights = new Map<string, LookupFlight>();

  constructor(
    @Inject(RestClient) rest: RestClient,
    @Inject(Clock) clock: Clock,
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
  ) {
    this.#rest = rest;
    this.#clock = clock;
    this.#settings = settings;
    this.#cache = new LookupCache(settings.lookupCache);
  }

  /** Frozen records, from the cache where they are fresh. */
  async find(subject: LookupSubject, deadline: Deadline): Promise<readonly unknown[]> {
    const key = lookupKey(subject);
    const cached = this.#cache.fresh(key, subject.tenant.key, this.#clock.now());
    if (cached !== undefined) {
      return answer(subject, 'hit', cached);
    }
    const running = this.#flights.get(key);
    const flight = running === undefined || running.isOver ? this.#start(key, subject, deadline) : running;
    try {
      return answer(subject, 'miss', await flight.join(deadline));
    } catch (error) {
      const stale = isOutage(error)
        ? this.#cache.stale(key, subject.tenant.key, this.#clock.now())
        : undefined;
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
    return this.#start(lookupKey(subject), subject, deadline).join(deadline);
  }

  /** Removes cached answers. Requests under way still answer their callers but are not cached. */
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
    const flight = new LookupFlight(name, this.#clock, deadline.remaining(), async (shared) => {
      try {
        const found = await this.#slots.run(subject, shared, () => this.#request(subject, shared));
        if (this.#flights.get(key) === flight) {
          this.#cache.keep(key, name, found, this.#clock.now());
        }
        return found.records;
      } finally {
        if (this.#flights.get(key) === flight) {
          this.#flights.delete(key);
        }
      }
    });
    this.#flights.set(key, flight);
    return flight;
  }

  async #request(subject: LookupSubject, deadline: Deadline): Promise<LookupAnswer> {
    const { key } = subject.tenant;
    const fetch = (query: string): Promise<unknown> => this.#fetch(subject, query, deadline);
    const rows = await readLookup({ tenant: key, fetch }, this.#settings);
    return prepareRecords(rows, this.#settings, key, deadline);
  }

  async #fetch(subject: LookupSubject, query: string, deadline: Deadline): Promise<unknown> {
    const { tenant, eventId, contactEmail } = subject;
    const event = encodeURIComponent(eventId);
    const path = `/api/v1/exhibitor/event/${event}/contactEmail/${encodeURIComponent(contactEmail)}${query}`;
    const request = { operation: 'lookup', path, template: TEMPLATE, contact: contactEmail } as const;
    try {
      return (await this.#rest.get(tenant, request, deadline)).body;
    } catch (error) {
      // The service does not document its reply where no exhibitor matches; 404 may be one.
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
