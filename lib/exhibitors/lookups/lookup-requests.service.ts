import { Inject, Injectable } from '@nestjs/common';
import { isExhibitorError } from '../../errors/is-exhibitor-error.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../../options/check-options.js';
import type { Deadline } from '../../time/deadline.js';
import { RestClient } from '../rest-client.service.js';
import { ContactSlots } from './contact-slots.js';
import type { LookupSubject } from './lookup-cache.js';
import type { LookupSteps } from './lookup-search.js';
import { prepareRecords } from './prepare-records.js';
import { readLookup, type LookupRules } from './read-lookup.js';

const TEMPLATE = '/api/v1/exhibitor/event/{eventId}/contactEmail/{contactEmail}';

/** Requests of the lookup endpoint (service specification, Endpoints §3), and what is made of their rows. */
@Injectable()
export class LookupRequests {
  readonly #rest: RestClient;
  readonly #settings: LookupRules;
  readonly #slots = new ContactSlots();

  constructor(@Inject(RestClient) rest: RestClient, @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions) {
    this.#rest = rest;
    this.#settings = settings;
  }

  steps(subject: LookupSubject, deadline: Deadline): Pick<LookupSteps, 'ask' | 'prepare'> {
    const { key } = subject.tenant;
    const fetch = (query: string): Promise<unknown> => this.#fetch(subject, query, deadline);
    const prepare: LookupSteps['prepare'] = (rows) => prepareRecords(rows, this.#settings, key, deadline);
    const ask: LookupSteps['ask'] = () =>
      this.#slots.run(subject, deadline, async () => {
        const rows = await readLookup({ tenant: key, fetch }, this.#settings);
        return { rows, answer: await prepare(rows) };
      });
    return { ask, prepare };
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
