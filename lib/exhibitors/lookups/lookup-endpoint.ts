import { isExhibitorError } from '../../errors/is-exhibitor-error.js';
import { freezeJson, weighJson } from '../../model/json-values.js';
import { MAX_RECORDS, type ExhibitorSettings } from '../../options/exhibitor-settings.js';
import type { Deadline } from '../../time/deadline.js';
import { exhibitorIdOf, type ExhibitorIdOf } from '../exhibitor-id.js';
import { malformedLookup, parseLookup, parseRecords } from '../parse-replies.js';
import type { RestClient } from '../rest-client.service.js';
import { ContactSlots } from './contact-slots.js';
import type { LookupAnswer, LookupSubject } from './lookup-cache.js';
import { isPartOfLookup, readLookupPages } from './lookup-pages.js';

const TEMPLATE = '/api/v1/exhibitor/event/{eventId}/contactEmail/{contactEmail}';

/** The lookup endpoint (service specification, Endpoints §3), and what is made of its rows. */
export class LookupEndpoint {
  private readonly slots = new ContactSlots();
  readonly idOf: ExhibitorIdOf;
  private readonly schema: ExhibitorSettings['exhibitorSchema'];
  private readonly maxRecords: number;

  constructor(
    private readonly rest: RestClient,
    settings: ExhibitorSettings,
  ) {
    const { exhibitorSchema, lookupCache } = settings;
    this.idOf = exhibitorIdOf(settings);
    this.schema = exhibitorSchema;
    this.maxRecords = lookupCache === false ? MAX_RECORDS : lookupCache.maxRecords;
  }

  /**
   * All rows of a lookup, as the service sends them. A wrapper that says that there are more pages is read to its end.
   *
   * @throws {ExhibitorError} `malformed_response` for more than `maxRecords`, and as {@link parseLookup} and
   * {@link readLookupPages}
   */
  request(subject: LookupSubject, deadline: Deadline): Promise<readonly unknown[]> {
    return this.slots.run(subject, deadline, async () => {
      const tenant = subject.tenant.key;
      const { maxRecords } = this;
      const body = await this.fetch(subject, '', deadline);
      if (isPartOfLookup(body)) {
        const fetch = (query: string): Promise<unknown> => this.fetch(subject, query, deadline);
        return readLookupPages({ tenant, first: body, maxRecords, fetch });
      }
      const rows = parseLookup(body, tenant, this.idOf);
      if (rows.length > maxRecords) {
        throw malformedLookup(`more than ${maxRecords} records`, tenant);
      }
      return rows;
    });
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
    const parsed = parseRecords(rows, this.schema, { tenant: tenant.key, path: '' });
    const records = parsed instanceof Promise ? await deadline.race(parsed) : parsed;
    freezeJson(records);
    return { records, weight: weighJson(rows) };
  }

  /** The body of a reply; `undefined` where there is none. */
  private async fetch(
    { tenant, eventId, contactEmail }: LookupSubject,
    query: string,
    deadline: Deadline,
  ): Promise<unknown> {
    const path = lookupPath(eventId, contactEmail) + query;
    const request = { operation: 'lookup', path, template: TEMPLATE } as const;
    try {
      return (await this.rest.get(tenant, request, deadline)).body;
    } catch (error) {
      // The service does not document its reply where no exhibitor matches; 404 may be one.
      if (isExhibitorError(error) && error.code === 'not_found') {
        return undefined;
      }
      throw error;
    }
  }
}

export function lookupPath(eventId: string, contactEmail: string): string {
  return `/api/v1/exhibitor/event/${encodeURIComponent(eventId)}/contactEmail/${encodeURIComponent(contactEmail)}`;
}
