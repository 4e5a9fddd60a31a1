import { Inject, Injectable } from '@nestjs/common';
import { isExhibitorError } from '../../errors/is-exhibitor-error.js';
import { freezeJson, weighJson } from '../../model/json-values.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../../options/check-options.js';
import type { Deadline } from '../../time/deadline.js';
import { parseRecords } from '../parse-records.js';
import { RestClient } from '../rest-client.service.js';
import { ContactSlots } from './contact-slots.js';
import type { LookupAnswer, LookupSubject } from './lookup-cache.js';
import { readLookup, type LookupRules } from './read-lookup.js';

const TEMPLATE = '/api/v1/exhibitor/event/{eventId}/contactEmail/{contactEmail}';

/** The lookup endpoint (service specification, Endpoints §3), and what is made of its rows. */
@Injectable()
export class LookupEndpoint {
  readonly #rest: RestClient;
  readonly #settings: LookupRules;
  readonly #slots = new ContactSlots();

  constructor(@Inject(RestClient) rest: RestClient, @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions) {
    this.#rest = rest;
    this.#settings = settings;
  }

  /** All rows of a lookup, as the service sends them. */
  request(subject: LookupSubject, deadline: Deadline): Promise<readonly unknown[]> {
    const fetch = (query: string): Promise<unknown> => this.#fetch(subject, query, deadline);
    return this.#slots.run(subject, deadline, () =>
      readLookup({ tenant: subject.tenant.key, fetch }, this.#settings),
    );
  }

  /**
   * The frozen records of these rows.
   *
   * @throws {ExhibitorError} `malformed_response` where a row does not fit `exhibitorSchema`
   */
  async answerOf(
    rows: readonly unknown[],
    { tenant }: LookupSubject,
    deadline: Deadline,
  ): Promise<LookupAnswer> {
    const parsed = parseRecords(rows, this.#settings.exhibitorSchema, { tenant: tenant.key, path: '' });
    const records = parsed instanceof Promise ? await deadline.race(parsed) : parsed;
    freezeJson(records);
    return { records, weight: weighJson(rows) };
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
