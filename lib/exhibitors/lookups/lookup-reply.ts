import type { Call } from '../../call/call.js';
import { PaginationDriftError, type PaginationBreach } from '../../errors/pagination-drift.error.js';
import { isRecord } from '../../model/json-values.js';
import { ExhibitorError } from '../../errors/exhibitor.error.js';
import { memberName, untrustedText } from '../../model/untrusted-text.js';
import { rowsExpected, type Page } from '../pages/event-size.js';
import { PageReader } from '../pages/page-reader.js';
import { pagesOf } from '../pages/read-pages.js';
import type { ExhibitorIdOf } from '../exhibitor-id.js';
import { parsePage } from '../pages/exhibitor-pages.service.js';

const MOST_PAGES = 20;

/** True for a wrapper that says, in any way, that it is not all. Its metadata may be unusable otherwise. */
export function isPartOfLookup(body: unknown): boolean {
  if (!isRecord(body) || !isRecord(body['paginationMetadata'])) {
    return false;
  }
  const { paginationMetadata: metadata, data } = body;
  const rows = Array.isArray(data) ? data.length : 0;
  return (
    Number(metadata['totalPages']) > 1 ||
    Number(metadata['currentPage']) > 1 ||
    Number(metadata['totalCount']) > rows ||
    String(metadata['hasNextPage']) === 'true' ||
    String(metadata['hasPreviousPage']) === 'true'
  );
}

/**
 * The rows of all pages, which are requested one after the other.
 *
 * @throws {PaginationDriftError} where the pages contradict each other, for example because the service ignores paging
 * @param first the first reply
 * @param tenant key of the tenant, for errors
 * @param call the lookup
 * @param fetch the body of a further page; `undefined` where there is none
 * @throws {ExhibitorError} `malformed_response` for more than 20 pages, and as {@link parsePage}
 */
export async function readLookupPages(
  first: unknown,
  tenant: string,
  call: Call,
  fetch: (query: string) => Promise<unknown>,
): Promise<readonly unknown[]> {
  const firstPage = pageOf(1, first, tenant);
  const { totalPages } = firstPage.page.paginationMetadata;
  const reader = new PageReader<unknown>({
    tenant,
    call,
    startPage: 1,
    maxPages: undefined,
    // The page size of the first reply counts.
    itemsPerPage: Number.MAX_SAFE_INTEGER,
    prefetch: 1,
    onDrift: 'error',
    fetch: async (page, itemsPerPage) => {
      if (page === 1) {
        return firstPage;
      }
      const body = await fetch(`?Page=${page}&ItemsPerPage=${itemsPerPage}`);
      if (body === undefined) {
        const expected = rowsExpected(page, firstPage.page.paginationMetadata);
        throw drift({ field: 'data.length', expected, seen: 0, page }, tenant);
      }
      return pageOf(page, body, tenant);
    },
  });
  const pages: unknown[][] = [];
  let hasMore: boolean | undefined;
  for await (const { data, paginationMetadata } of pagesOf(reader)) {
    // Before the second page is requested.
    if (totalPages > MOST_PAGES) {
      throw malformedLookup(`more than ${MOST_PAGES} pages`, tenant);
    }
    pages.push(data);
    hasMore = paginationMetadata.hasNextPage;
  }
  if (hasMore === true) {
    throw drift({ field: 'hasNextPage', expected: 'false', seen: 'true', page: pages.length }, tenant);
  }
  return pages.flat();
}

function pageOf(number: number, body: unknown, tenant: string): Page {
  const page = parsePage(body, tenant);
  return { number, page, rows: page.data };
}

function drift(breach: PaginationBreach, tenant: string): PaginationDriftError {
  return new PaginationDriftError(breach, 0, { tenant });
}

/**
 * The exhibitors in the reply to a lookup. The service does not document whether it wraps them, or its reply where there is
 * none. Accepted are an array, the paginated wrapper and one object; `null`, `{}`, `[]`, and the status 204 or 404, are no
 * exhibitor. Some services answer 200 with a message, or with a wrapper of other names: one object is an exhibitor only where it has an id.
 *
 * @param body `undefined` after 204 and 404
 *
 * @param idOf absent where `exhibitorSchema` decides whether one object is an exhibitor
 * @throws {ExhibitorError} `malformed_response` for anything else
 */
export function parseLookup(body: unknown, tenant: string, idOf?: ExhibitorIdOf): readonly unknown[] {
  if (body === undefined || body === null) {
    return [];
  }
  if (Array.isArray(body)) {
    return body;
  }
  if (!isRecord(body)) {
    throw malformedLookup('the reply is neither an object nor an array', tenant);
  }
  if (Object.keys(body).length === 0) {
    return [];
  }
  if (isWrapper(body)) {
    return rowsOf(body, tenant);
  }
  if (idOf !== undefined && !hasId(body, idOf)) {
    throw malformedLookup(`one object, without an id (option exhibitorId); ${membersOf(body)}`, tenant);
  }
  return [body];
}

/** An id that a function of the host makes of an empty object as well, such as `undefined-undefined`, is none. */
function hasId(body: Record<string, unknown>, idOf: ExhibitorIdOf): boolean {
  const [id, none] = [body, {}].map((record) => {
    try {
      return idOf(record);
    } catch {
      return undefined;
    }
  });
  return id !== undefined && id !== none;
}

/** What came instead of an exhibitor, for the log: names alone, of which one may be a value. */
export function membersOf(body: object): string {
  return `its members: ${untrustedText(Object.keys(body).map(memberName).join(', '), 200)}`;
}

/** An exhibitor may have a member `data`: only the paging information, or `data` as the only member, makes a wrapper. */
function isWrapper(body: Record<string, unknown>): boolean {
  return 'paginationMetadata' in body || (Array.isArray(body['data']) && Object.keys(body).length === 1);
}

function rowsOf({ data }: Record<string, unknown>, tenant: string): readonly unknown[] {
  if (data === null) {
    return [];
  }
  if (Array.isArray(data)) {
    return data;
  }
  throw malformedLookup('data is not an array', tenant);
}

function malformedLookup(problem: string, tenant: string): ExhibitorError {
  return new ExhibitorError('malformed_response', `not the exhibitors of a contact: ${problem}`, { tenant });
}
