import type { PaginationBreach } from '../../errors/pagination-drift.error.js';
import type { PaginationMetadata } from './exhibitor-page.interface.js';
import { isSameJson } from '../../model/json-values.js';

/** A page as it came, with the number that was asked for. */
export interface SeenPage {
  asked: number;
  metadata: PaginationMetadata;
  /** Raw rows, before any schema. */
  rows: readonly unknown[];
}

/**
 * Holds a page against the first one read and the one before it; the first page is held against itself. A service that
 * clamps `itemsPerPage` is right: what the first page says counts, not what was asked for.
 */
export function breachesOf(
  page: SeenPage,
  first: PaginationMetadata,
  before: SeenPage | undefined,
): PaginationBreach[] {
  const { asked, metadata, rows } = page;
  const breaches: PaginationBreach[] = [];
  const expect = (field: string, expected: number | string, seen: number | string): void => {
    if (seen !== expected) {
      breaches.push({ field, expected, seen, page: asked });
    }
  };
  // An event without exhibitors has no page, which some services number 0.
  if (metadata.currentPage !== 0 || asked !== 1 || first.totalCount > 0) {
    expect('currentPage', asked, metadata.currentPage);
  }
  expect('totalCount', first.totalCount, metadata.totalCount);
  // Another page size alone does no harm (some services give the last page its own); its rows or pages would show it.
  if (rows.length > metadata.itemsPerPage) {
    expect('itemsPerPage', first.itemsPerPage, metadata.itemsPerPage);
  }
  if (metadata === first) {
    expect('totalPages', pagesThatFit(first), first.totalPages);
  } else {
    expect('totalPages', first.totalPages, metadata.totalPages);
  }
  expect('data.length', rowsExpected(asked, first), rows.length);
  if (before !== undefined && isRepeated(rows, before.rows)) {
    breaches.push({
      field: 'data',
      expected: 'other rows',
      seen: `the rows of page ${before.asked}`,
      page: asked,
    });
  }
  return breaches;
}

/**
 * Rows that the first page's numbers promise for a page. Exact, not only at most `itemsPerPage`: a page that is short
 * before the end would be a silent loss.
 */
export function rowsExpected(page: number, first: PaginationMetadata): number {
  const behind = first.totalCount - (page - 1) * first.itemsPerPage;
  return Math.max(0, Math.min(first.itemsPerPage, behind));
}

/** Number of pages that fits the count: an event without exhibitors has none, or one that is empty. */
function pagesThatFit({ totalCount, totalPages, itemsPerPage }: PaginationMetadata): number {
  if (totalCount === 0) {
    return Math.min(totalPages, 1);
  }
  // Without a page size no number of pages fits; -1 is none.
  return itemsPerPage === 0 ? -1 : Math.ceil(totalCount / itemsPerPage);
}

/** Rows that are those of the page before: a service that serves its last page for ever. Ends at the first difference. */
export function isRepeated(rows: readonly unknown[], before: readonly unknown[]): boolean {
  if (rows.length === 0 || rows.length !== before.length) {
    return false;
  }
  return rows.every((row, index) => isSameJson(row, before[index]));
}

/**
 * True for a page that has nothing more to give: empty or repeated, and behind what `totalCount` promises. It ends a
 * stream that ignores drift, however many pages the service claims. A page that was asked for first is always given.
 */
export function isBehindTheEnd(
  page: SeenPage,
  first: PaginationMetadata,
  before: SeenPage | undefined,
): boolean {
  if (before === undefined || rowsExpected(page.asked, first) > 0) {
    return false;
  }
  return page.rows.length === 0 || isRepeated(page.rows, before.rows);
}
