import type { ParsedUrlQuery } from 'node:querystring';
import { MAX_ITEMS_PER_PAGE, pageOf } from '../page-of.js';
import type { ApiAccess } from './api-access.js';
import type { SandboxExhibitor } from './generate-exhibitors.js';
import { tenantOf, type SandboxSeed, type SeedEvent } from './seed.js';

// Service spec, "Limits".
const DEFAULT_PAGE = 1;

/** The current exhibitors of every tenant and event. */
export class ExhibitorRecords {
  readonly #byTenant: Map<string, Map<string, readonly SandboxExhibitor[]>>;
  readonly #events: Map<string, SeedEvent>;

  constructor(private readonly seed: SandboxSeed) {
    this.#byTenant = new Map(
      seed.tenants.map(({ key }) => [key, new Map(Object.entries(seed.exhibitors[key] ?? {}))]),
    );
    this.#events = new Map(seed.events.map((event) => [event.id, event]));
  }

  /** The events of all tenants: seeded events first, then those added by {@link replace}. */
  get events(): readonly SeedEvent[] {
    return [...this.#events.values()];
  }

  /** The exhibitors of an event. `undefined` if the tenant does not have the event. */
  find(tenantKey: string, eventId: string): readonly SandboxExhibitor[] | undefined {
    return this.#exhibitorsByEvent(tenantKey).get(eventId);
  }

  /** Replaces the exhibitors of an event for one tenant, or for all. Adds the event if it does not exist. */
  replace(eventId: string, records: readonly SandboxExhibitor[], tenantKey?: string): void {
    const tenants =
      tenantKey === undefined ? [...this.#byTenant.values()] : [this.#exhibitorsByEvent(tenantKey)];
    for (const exhibitorsByEvent of tenants) {
      exhibitorsByEvent.set(eventId, [...records]);
    }
    if (!this.#events.has(eventId)) {
      this.#events.set(eventId, { id: eventId, title: eventId });
    }
  }

  #exhibitorsByEvent(tenantKey: string): Map<string, readonly SandboxExhibitor[]> {
    const { key } = tenantOf(this.seed, tenantKey);
    return this.#byTenant.get(key) ?? new Map();
  }
}

/** A request to one of the two REST endpoints, percent-decoded. */
export interface RestRequest {
  readonly method: string;
  readonly eventId: string;
  /** Of a lookup only. */
  readonly contactEmail?: string;
  readonly query: ParsedUrlQuery;
}

/** A reply of the REST API. The body is sent as JSON. */
export interface RestReply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/**
 * Creates the reply to a REST request by the rules of the service spec. Where the spec is silent, the sandbox limits
 * `ItemsPerPage` to 50, returns an empty page with correct metadata beyond the last page, and returns an empty array
 * for a lookup without results.
 */
export function createRestReply(
  request: RestRequest,
  access: ApiAccess,
  records: ExhibitorRecords,
): RestReply {
  if ('status' in access) {
    const { status, error, message } = access;
    return status === 401
      ? errorReply(status, error, message, { 'www-authenticate': `Bearer error="${error}"` })
      : errorReply(status, error, message);
  }
  if (request.method !== 'GET') {
    return errorReply(405, 'method_not_allowed', 'Only GET is allowed', { allow: 'GET' });
  }
  const exhibitors = records.find(access.tenant.key, request.eventId);
  if (!exhibitors) {
    return errorReply(404, 'event_not_found', 'The tenant has no such event');
  }
  const { contactEmail } = request;
  if (contactEmail !== undefined) {
    return { status: 200, body: exhibitors.filter((record) => record.contactEmails.includes(contactEmail)) };
  }
  const page = parsePositiveInteger(request.query['Page'], DEFAULT_PAGE);
  const itemsPerPage = parsePositiveInteger(request.query['ItemsPerPage'], MAX_ITEMS_PER_PAGE);
  if (page === undefined || itemsPerPage === undefined) {
    return errorReply(400, 'invalid_paging', 'Page and ItemsPerPage must be integers from 1');
  }
  return { status: 200, body: pageOf(exhibitors, page, Math.min(itemsPerPage, MAX_ITEMS_PER_PAGE)) };
}

/** `undefined` if the parameter is repeated or not an integer from 1 to 999,999,999. */
function parsePositiveInteger(
  value: string | readonly string[] | undefined,
  defaultValue: number,
): number | undefined {
  if (value === undefined) {
    return defaultValue;
  }
  return typeof value === 'string' && /^[1-9]\d{0,8}$/.test(value) ? Number(value) : undefined;
}

function errorReply(
  status: number,
  error: string,
  message: string,
  headers?: Record<string, string>,
): RestReply {
  return { status, headers, body: { error, message } };
}
