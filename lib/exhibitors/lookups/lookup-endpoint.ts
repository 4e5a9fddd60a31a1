import { isExhibitorError } from '../../errors/is-exhibitor-error.js';
import { freezeJson, isRecord } from '../../model/json-values.js';
import type { Tenant } from '../../config/tenant.js';
import type { Call } from '../../call/call.js';
import type { ExhibitorIdOf } from '../exhibitor-id.js';
import type { RestClient } from '../rest-client.service.js';
import { isPartOfLookup, membersOf, parseLookup, readLookupPages } from './lookup-reply.js';

const TEMPLATE = '/api/v1/exhibitor/event/{eventId}/contactEmail/{contactEmail}';

export interface LookupSubject {
  tenant: Tenant;
  eventId: string;
  contactEmail: string;
}

export interface LookupAnswer {
  /** Frozen. */
  readonly records: readonly unknown[];
  /** Of the rows as JSON. */
  readonly bytes: number;
}

/** The lookup endpoint (service specification, Endpoints §3), and what is made of its rows. */
export class LookupEndpoint {
  /** @param idOf `undefined` where `exhibitorSchema` decides whether one object is an exhibitor */
  constructor(
    private readonly rest: RestClient,
    private readonly idOf: ExhibitorIdOf | undefined,
  ) {}

  /**
   * The records of a contact. A wrapper that says that there are more pages is read to its end.
   *
   * @throws {ExhibitorError} `malformed_response`, also where a row does not fit `exhibitorSchema` or is empty, and as
   * {@link readLookupPages}
   */
  async find(subject: LookupSubject, call: Call): Promise<LookupAnswer> {
    const tenant = subject.tenant.key;
    const body = await this.#fetch(subject, '', call);
    const rows = isPartOfLookup(body)
      ? await readLookupPages(body, tenant, call, (query) => this.#fetch(subject, query, call))
      : parseLookup(body, tenant, this.idOf);
    const bytes = Buffer.byteLength(JSON.stringify(rows));
    const isOne = isRecord(body) && rows[0] === body;
    const place = { tenant, path: '', note: isOne ? membersOf(body) : undefined };
    const records = await this.rest.records(rows, place, call);
    freezeJson(records);
    return { records, bytes };
  }

  /** The body of a reply; `undefined` where there is none. */
  async #fetch(
    { tenant, eventId, contactEmail }: LookupSubject,
    query: string,
    call: Call,
  ): Promise<unknown> {
    const path = `/api/v1/exhibitor/event/${encodeURIComponent(eventId)}/contactEmail/${encodeURIComponent(contactEmail)}${query}`;
    const request = { operation: 'lookup', path, template: TEMPLATE, contact: contactEmail } as const;
    try {
      return (await this.rest.get(tenant, request, call)).body;
    } catch (error) {
      // The service does not document its reply where no exhibitor matches; 404 may be one.
      if (isExhibitorError(error) && error.code === 'not_found') {
        return undefined;
      }
      throw error;
    }
  }
}
