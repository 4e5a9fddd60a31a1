import { ExhibitorError } from '../../errors/exhibitor.error.js';
import { PaginationDriftError, type PaginationBreach } from '../../errors/pagination-drift.error.js';
import { isRecord } from '../../model/json-values.js';
import { MAX_RECORDS, type ExhibitorSettings } from '../../options/exhibitor-settings.js';
import { breachesOf, rowsExpected, type SeenPage } from '../pages/page-drift.js';
import { parseLookup, parsePage } from '../parse-replies.js';
import { isErrorShaped } from './error-shape.js';

/** Most pages of one lookup. */
const MOST_PAGES = 20;

/** How to request a lookup. */
export interface LookupSource {
  /** Key of the tenant, for errors. */
  tenant: string;
  /** The body of the reply; `undefined` where there is none. The first request has no query. */
  fetch(query: string): Promise<unknown>;
}

/** The options that decide about a reply. */
export type LookupRules = Pick<ExhibitorSettings, 'exhibitorId' | 'exhibitorSchema' | 'lookupCache'>;

/**
 * The rows of a lookup. A wrapper that says that there are more pages is read to its end, one page after the other.
 *
 * @throws {PaginationDriftError} where the pages contradict each other, for example because the service ignores paging
 * @throws {ExhibitorError} `malformed_response` for more than 20 pages or `maxRecords`, and as {@link parseLookup}
 */
export async function readLookup(source: LookupSource, rules: LookupRules): Promise<readonly unknown[]> {
  const body = await source.fetch('');
  const most = maxRecords(rules);
  if (isPart(body)) {
    return readPages(body, most, source);
  }
  const rows = parseLookup(body, source.tenant);
  if (rows.length > most) {
    throw malformed(`more than ${most} records`, source.tenant);
  }
  const isOneObject = rows[0] === body;
  if (isOneObject && isRecord(body) && isErrorShaped(body, rules)) {
    throw malformed('the reply looks like an error', source.tenant);
  }
  return rows;
}

async function readPages(body: unknown, most: number, source: LookupSource): Promise<readonly unknown[]> {
  const { tenant } = source;
  const first = seenPage(1, body, tenant);
  const { totalCount, totalPages, itemsPerPage } = first.metadata;
  refuse(breachesIn(first, first, undefined), tenant);
  if (totalPages > MOST_PAGES) {
    throw malformed(`more than ${MOST_PAGES} pages`, tenant);
  }
  if (totalCount > most) {
    throw malformed(`more than ${most} records`, tenant);
  }
  const rows = [...first.rows];
  for (let before = first; before.requested < totalPages;) {
    const requested = before.requested + 1;
    const reply = await source.fetch(`?Page=${requested}&ItemsPerPage=${itemsPerPage}`);
    if (reply === undefined) {
      refuse([missing(requested, first)], tenant);
    }
    const page = seenPage(requested, reply, tenant);
    refuse(breachesIn(page, first, before), tenant);
    for (const row of page.rows) {
      rows.push(row);
    }
    before = page;
  }
  return rows;
}

function maxRecords({ lookupCache }: LookupRules): number {
  return lookupCache === false ? MAX_RECORDS : lookupCache.maxRecords;
}

/** True for a wrapper that says, in any way, that it is not all. Its metadata may be unusable otherwise. */
function isPart(body: unknown): boolean {
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

function seenPage(requested: number, body: unknown, tenant: string): SeenPage {
  const { paginationMetadata: metadata, data: rows } = parsePage(body, tenant);
  return { requested, metadata, rows };
}

function breachesIn(page: SeenPage, first: SeenPage, before: SeenPage | undefined): PaginationBreach[] {
  const breaches = breachesOf(page, first.metadata, before);
  if (page.requested === first.metadata.totalPages && page.metadata.hasNextPage === true) {
    breaches.push({ field: 'hasNextPage', expected: 'false', seen: 'true', page: page.requested });
  }
  return breaches;
}

/** A page that the first reply announced, and that does not exist. */
function missing(page: number, first: SeenPage): PaginationBreach {
  return { field: 'data.length', expected: rowsExpected(page, first.metadata), seen: 0, page };
}

function refuse([breach]: readonly PaginationBreach[], tenant: string): void {
  if (breach !== undefined) {
    throw new PaginationDriftError(breach, 0, { tenant });
  }
}

function malformed(problem: string, tenant: string): ExhibitorError {
  return new ExhibitorError('malformed_response', `not the exhibitors of a contact: ${problem}`, { tenant });
}
