import type { PaginationBreach } from '../../errors/pagination-drift.error.js';
import type { ExhibitorPage, PaginationMetadata } from './exhibitor-page.interface.js';

/** A page of the service, as a reading sees it. */
export interface Page<T = unknown> {
  /** As requested. */
  number: number;
  page: ExhibitorPage<T>;
  /** Of the wire, before any schema, in an array of their own: drift is looked for in them. */
  rows: readonly unknown[];
}

/** The size of an event, by the first page of a reading. All pages of the reading must fit it. */
export type EventSize = Readonly<Pick<PaginationMetadata, 'totalCount' | 'totalPages' | 'itemsPerPage'>>;

/**
 * The size of an event as the page tells it that a reading begins with. The service may limit the page size. Some services report the
 * number of rows as the page size of the last page, and 0 beyond it. The first row that fits counts:
 *
 * | the page, for example of 60 rows in 3 pages | the page size is                                     |
 * | ------------------------------------------- | ---------------------------------------------------- |
 * | does not hide it                            | the one reported                                     |
 * | hides it, and the caller expects one        | that one                                             |
 * | hides it, and has 10 rows                   | (60 - 10) / (3 - 1) = 25, if that is possible        |
 * | hides it, and has no rows                   | 60 / 3 = 20, the smallest, if that is possible       |
 * | hides it                                    | the one requested: the numbers contradict each other |
 *
 * Such a page that lacks rows, or has too many, may tell another size that is possible: only what the caller expects shows that.
 */
export function eventSizeOf(first: Page, requested: number, expected?: number): EventSize {
  const { totalCount, totalPages, itemsPerPage } = first.page.paginationMetadata;
  const sizeBy = (pageSize: number): EventSize => ({ totalCount, totalPages, itemsPerPage: pageSize });
  if (!hidesPageSize(first)) {
    return sizeBy(itemsPerPage);
  }
  const rows = first.rows.length;
  const told = rows > 0 ? (totalCount - rows) / (totalPages - 1) : Math.ceil(totalCount / totalPages);
  // No service sends more than requested: where the last page lacks rows, a larger page size would fit.
  const isPossible = Number.isInteger(told) && told <= requested && pagesThatFit(sizeBy(told)) === totalPages;
  return sizeBy(expected ?? (isPossible ? told : requested));
}

/** Only at the end of an event: elsewhere the number of rows is the page size. */
function hidesPageSize({ number, page: { paginationMetadata }, rows }: Page): boolean {
  const { totalPages, itemsPerPage } = paginationMetadata;
  const isLastOrBeyond = number > 1 && number >= totalPages;
  return isLastOrBeyond && itemsPerPage === rows.length && pagesThatFit(paginationMetadata) !== totalPages;
}

/** Compares the size of an event with the size that the caller expects. */
export function sizeBreaches(
  event: EventSize,
  size: Partial<EventSize> | undefined,
  page: number,
): PaginationBreach[] {
  return (['totalCount', 'itemsPerPage'] as const).flatMap((field) => {
    const seen = event[field];
    const expected = size?.[field] ?? seen;
    return seen === expected ? [] : [{ field, expected, seen, page }];
  });
}

/**
 * Number of rows that a page must have. Exact, not only an upper limit: a short page before the end would be an undetected loss.
 */
export function rowsExpected(page: number, { totalCount, itemsPerPage }: EventSize): number {
  const remaining = totalCount - (page - 1) * itemsPerPage;
  return Math.max(0, Math.min(itemsPerPage, remaining));
}

/** Where the page size is 0. */
const NO_NUMBER_FITS = -1;

/** Number of pages that fits the count. An event without exhibitors has no page, or an empty one. */
export function pagesThatFit({ totalCount, totalPages, itemsPerPage }: EventSize): number {
  if (totalCount === 0) {
    return Math.min(totalPages, 1);
  }
  return itemsPerPage === 0 ? NO_NUMBER_FITS : Math.ceil(totalCount / itemsPerPage);
}
