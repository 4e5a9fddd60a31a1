import { isDeepStrictEqual } from 'node:util';
import type { PaginationBreach } from '../../errors/pagination-drift.error.js';
import type { ExhibitorPage, PaginationMetadata } from './exhibitor-page.interface.js';

/** A page of the service, as a reading sees it. */
export interface Page<T = unknown> {
  /** As requested. */
  number: number;
  page: ExhibitorPage<T>;
  /** Before any schema: drift is looked for in the rows of the wire. */
  rows: readonly unknown[];
}

/**
 * Compares a page with the first one and with the one before it; the first page must agree with itself. The
 * page size of the first page counts, not the requested one: the service may limit it. A page beyond the end may have any
 * number.
 */
export function breachesOf(
  seen: Page,
  first: PaginationMetadata,
  before: Page | undefined,
): PaginationBreach[] {
  const { number, rows } = seen;
  const metadata = seen.page.paginationMetadata;
  const breaches: PaginationBreach[] = [];
  const expect = (field: string, expected: number | string, received: number | string): void => {
    if (received !== expected) {
      breaches.push({ field, expected, seen: received, page: number });
    }
  };
  const isBeyond = isBeyondEnd(seen, first, before);
  // Some services number the only page of an empty event 0.
  const isEmptyEvent = metadata.currentPage === 0 && number === 1 && first.totalCount === 0;
  if (!isBeyond && !isEmptyEvent) {
    expect('currentPage', number, metadata.currentPage);
  }
  expect('totalCount', first.totalCount, metadata.totalCount);
  // Some services report another page size for the last page. That alone does no harm.
  if (rows.length > metadata.itemsPerPage) {
    expect('itemsPerPage', first.itemsPerPage, metadata.itemsPerPage);
  }
  expect('totalPages', before === undefined ? pagesThatFit(first) : first.totalPages, metadata.totalPages);
  if (!isBeyond) {
    expect('data.length', rowsExpected(number, first), rows.length);
  }
  if (before !== undefined && isRepeated(rows, before.rows)) {
    expect('data', 'other rows', `the rows of page ${before.number}`);
  }
  return breaches;
}

/** Compares the first page of a reading with the size that the caller expects. */
export function sizeBreaches(
  { number, page }: Page,
  size: Partial<PaginationMetadata> | undefined,
): PaginationBreach[] {
  return (['totalCount', 'itemsPerPage'] as const).flatMap((field) => {
    const seen = page.paginationMetadata[field];
    const expected = size?.[field] ?? seen;
    return seen === expected ? [] : [{ field, expected, seen, page: number }];
  });
}

/**
 * Number of rows of a page according to the first page. Exact, not only an upper limit: a short page before the end would be
 * an undetected loss.
 */
export function rowsExpected(page: number, first: PaginationMetadata): number {
  const remaining = first.totalCount - (page - 1) * first.itemsPerPage;
  return Math.max(0, Math.min(first.itemsPerPage, remaining));
}

/** Number of pages that fits the count. An event without exhibitors has no page, or an empty one. */
function pagesThatFit({ totalCount, totalPages, itemsPerPage }: PaginationMetadata): number {
  if (totalCount === 0) {
    return Math.min(totalPages, 1);
  }
  // With a page size of 0 no number of pages fits, which -1 stands for.
  return itemsPerPage === 0 ? -1 : Math.ceil(totalCount / itemsPerPage);
}

/** True where the rows equal those of the page before: the service repeats its last page. */
function isRepeated(rows: readonly unknown[], before: readonly unknown[]): boolean {
  return rows.length > 0 && isDeepStrictEqual(rows, before);
}

/**
 * True for an empty or repeated page beyond `totalCount`. It ends a stream that ignores drift, whatever number of pages the
 * service claims, and a reading that starts there: the service may answer the last page again. Page 1 is always delivered.
 */
export function isBeyondEnd(
  { number, rows }: Page,
  first: PaginationMetadata,
  before: Page | undefined,
): boolean {
  if (number === 1 || rowsExpected(number, first) > 0) {
    return false;
  }
  if (rows.length === 0) {
    return true;
  }
  // A reading that starts there knows the number of rows of the last page, not the rows.
  return before === undefined
    ? rows.length === rowsExpected(first.totalPages, first)
    : isRepeated(rows, before.rows);
}
