import type { ParsedUrlQuery } from 'node:querystring';
import { MAX_ITEMS_PER_PAGE, pageOf } from '../page-of.js';
import type { ApiAccess } from './api-access.js';
import type { ExhibitorRecords } from './exhibitor-records.js';

// Service spec, "Limits".
const DEFAULT_PAGE = 1;

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
