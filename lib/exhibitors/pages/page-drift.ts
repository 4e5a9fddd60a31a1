import { isDeepStrictEqual } from 'node:util';
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

/** A page compared with the size of its event and with the page before. */
export interface Comparison {
  /** What contradicts; empty where the page fits. */
  breaches: PaginationBreach[];
  /** True where the event ends before this page. */
  isBeyondEnd: boolean;
}

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
 * Compares a page with the size of its event and with the page before. `totalCount` must be that of the event, and:
 *
 * | a page                        | `currentPage`    | `totalPages`             | rows                                          |
 * | ----------------------------- | ---------------- | ------------------------ | --------------------------------------------- |
 * | that is read first            | its number       | as many as fit the count | those due                                     |
 * | that is read later            | its number       | that of the event        | those due, and others than on the page before |
 * | beyond the end                | any              | as above                 | none. If it is read first, also as many as on the last page |
 * | that is all of an empty event | its number, or 0 | 0 or 1                   | none                                          |
 *
 * Another `itemsPerPage` alone does no harm, as some services report one for the last page. Only more rows than it allows do.
 *
 * @param before `undefined` for the page that is read first
 */
export function comparePage(seen: Page, event: EventSize, before: Page | undefined): Comparison {
  const { number, rows } = seen;
  const { currentPage, totalCount, totalPages, itemsPerPage } = seen.page.paginationMetadata;
  const rowsDue = rowsExpected(number, event);
  const isRepeated = before !== undefined && rows.length > 0 && isDeepStrictEqual(rows, before.rows);
  const isLikeLastPage =
    before === undefined && event.totalCount > 0 && rows.length === rowsExpected(event.totalPages, event);
  const isNothingNew = rows.length === 0 || isRepeated || isLikeLastPage;
  const isBeyondEnd = number > 1 && rowsDue === 0 && isNothingNew;
  const isNumberedZero = number === 1 && currentPage === 0 && event.totalCount === 0;

  const breaches: PaginationBreach[] = [];
  const expect = (field: string, expected: number | string, received: number | string): void => {
    if (received !== expected) {
      breaches.push({ field, expected, seen: received, page: number });
    }
  };
  if (!isBeyondEnd && !isNumberedZero) {
    expect('currentPage', number, currentPage);
  }
  expect('totalCount', event.totalCount, totalCount);
  if (rows.length > itemsPerPage) {
    expect('itemsPerPage', event.itemsPerPage, itemsPerPage);
  }
  expect('totalPages', before === undefined ? pagesThatFit(event) : event.totalPages, totalPages);
  if (!isBeyondEnd) {
    expect('data.length', rowsDue, rows.length);
  }
  if (isRepeated) {
    expect('data', 'other rows', `the rows of page ${before.number}`);
  }
  return { breaches, isBeyondEnd };
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
function pagesThatFit({ totalCount, totalPages, itemsPerPage }: EventSize): number {
  if (totalCount === 0) {
    return Math.min(totalPages, 1);
  }
  return itemsPerPage === 0 ? NO_NUMBER_FITS : Math.ceil(totalCount / itemsPerPage);
}
