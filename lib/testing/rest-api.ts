import type { ParsedUrlQuery } from 'node:querystring';
import type { ApiAccess } from './api-access.js';
import type { ExhibitorRecords } from './exhibitor-records.js';

// Service spec, "Limits".
const DEFAULT_PAGE = 1;
const MAX_ITEMS_PER_PAGE = 50;

/** A request to one of the two REST endpoints, percent-decoded. */
export interface RestCall {
  readonly method: string;
  readonly eventId: string;
  /** Present on the lookup only. */
  readonly contactEmail?: string;
  readonly query: ParsedUrlQuery;
}

/** What is answered: always JSON. */
export interface RestReply {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/**
 * Answers a REST request by the rules of the service spec; what the spec leaves open is chosen here: `ItemsPerPage`
 * above 50 is 50, a page past the end is empty with true metadata, and nobody found is an empty array.
 */
export function answerRest(call: RestCall, access: ApiAccess, records: ExhibitorRecords): RestReply {
  if ('status' in access) {
    const { status, error, message } = access;
    return status === 401
      ? { status, headers: { 'www-authenticate': `Bearer error="${error}"` }, body: { error, message } }
      : { status, body: { error, message } };
  }
  if (call.method !== 'GET') {
    return problem(405, 'method_not_allowed', 'Only GET is offered here', { allow: 'GET' });
  }
  const exhibitors = records.find(access.tenant.key, call.eventId);
  if (!exhibitors) {
    return problem(404, 'event_not_found', 'This tenant has no such event');
  }
  const { contactEmail } = call;
  if (contactEmail !== undefined) {
    return { status: 200, body: exhibitors.filter((record) => record.contactEmails.includes(contactEmail)) };
  }
  const page = whole(call.query['Page'], DEFAULT_PAGE);
  const asked = whole(call.query['ItemsPerPage'], MAX_ITEMS_PER_PAGE);
  if (page === undefined || asked === undefined) {
    return problem(400, 'invalid_paging', 'Page and ItemsPerPage are whole numbers from 1');
  }
  return { status: 200, body: pageOf(exhibitors, page, Math.min(asked, MAX_ITEMS_PER_PAGE)) };
}

/** One page in the paginated collection wrapper of the service spec. */
export function pageOf<T>(items: readonly T[], currentPage: number, itemsPerPage: number) {
  const totalPages = Math.ceil(items.length / itemsPerPage);
  return {
    paginationMetadata: {
      currentPage,
      totalCount: items.length,
      totalPages,
      hasPreviousPage: currentPage > 1 && totalPages > 0,
      hasNextPage: currentPage < totalPages,
      itemsPerPage,
    },
    data: items.slice((currentPage - 1) * itemsPerPage, currentPage * itemsPerPage),
  };
}

function whole(value: string | readonly string[] | undefined, otherwise: number): number | undefined {
  if (value === undefined) {
    return otherwise;
  }
  return typeof value === 'string' && /^[1-9]\d{0,8}$/.test(value) ? Number(value) : undefined;
}

function problem(
  status: number,
  error: string,
  message: string,
  headers?: Record<string, string>,
): RestReply {
  return { status, headers, body: { error, message } };
}
