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
 * The size of an event as the first page of a reading tells it, not as requested: the service may limit the page size.
 *
 * Some services report the number of rows as the page size of the last page and beyond it. Of 60 rows by 25, page 3 reports 10. A
 * reading that starts there takes the page size that the caller expects, else the one that the other numbers tell, (60 - 10) / 2.
 */
export function eventSizeOf({ number, page, rows }: Page, requested: number, expected?: number): EventSize {
  const { totalCount, totalPages, itemsPerPage: reported } = page.paginationMetadata;
  const sizeBy = (itemsPerPage: number): EventSize => ({ totalCount, totalPages, itemsPerPage });
  const fits = (pageSize: number): boolean => pagesThatFit(sizeBy(pageSize)) === totalPages;
  const isLastOrBeyond = number > 1 && number >= totalPages;
  if (!isLastOrBeyond || reported !== rows.length || fits(reported)) {
    return sizeBy(reported);
  }
  const told =
    rows.length > 0 ? (totalCount - rows.length) / (totalPages - 1) : Math.ceil(totalCount / totalPages);
  // No service sends more than requested. Where the last page lacks rows, a larger size would fit.
  const isTold = Number.isInteger(told) && told <= requested && fits(told);
  return sizeBy(expected ?? (isTold ? told : requested));
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
 * | a page                           | `currentPage`    | `totalPages`             | rows                                        |
 * | -------------------------------- | ---------------- | ------------------------ | ------------------------------------------- |
 * | that is read first               | its number       | as many as fit the count | those due                                   |
 * | that is read later               | its number       | that of the event        | those due, other ones than on the page before |
 * | beyond the end                   | any              | as in the rows above     | none, or those of the last page             |
 * | that is all of an empty event    | its number, or 0 | 0 or 1                   | none                                        |
 *
 * Another `itemsPerPage` alone does no harm, as some services report one for the last page. Only more rows than it allows do.
 *
 * @param before `undefined` for the page that is read first
 */
export function comparePage(seen: Page, event: EventSize, before: Page | undefined): Comparison {
  const { number, rows } = seen;
  const { currentPage, totalCount, totalPages, itemsPerPage } = seen.page.paginationMetadata;
  const rowsDue = rowsExpected(number, event);
  const isBeyondEnd = number > 1 && rowsDue === 0 && isNothingNew(rows, event, before);
  const isEmptyEvent = number === 1 && event.totalCount === 0;

  const breaches: PaginationBreach[] = [];
  const expect = (field: string, expected: number | string, received: number | string): void => {
    if (received !== expected) {
      breaches.push({ field, expected, seen: received, page: number });
    }
  };
  const hasAnyNumber = isBeyondEnd || (isEmptyEvent && currentPage === 0);
  expect('currentPage', hasAnyNumber ? currentPage : number, currentPage);
  expect('totalCount', event.totalCount, totalCount);
  if (rows.length > itemsPerPage) {
    expect('itemsPerPage', event.itemsPerPage, itemsPerPage);
  }
  expect('totalPages', before === undefined ? pagesThatFit(event) : event.totalPages, totalPages);
  expect('data.length', isBeyondEnd ? rows.length : rowsDue, rows.length);
  if (before !== undefined && isRepeated(rows, before)) {
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

/** How services answer a page that an event does not have: without rows, or by the last page again. */
function isNothingNew(rows: readonly unknown[], event: EventSize, before: Page | undefined): boolean {
  if (rows.length === 0) {
    return true;
  }
  // The first page of a reading can be compared only with the number of rows of the last page, which an empty event has not.
  return before === undefined
    ? event.totalCount > 0 && rows.length === rowsExpected(event.totalPages, event)
    : isRepeated(rows, before);
}

function isRepeated(rows: readonly unknown[], before: Page): boolean {
  return rows.length > 0 && isDeepStrictEqual(rows, before.rows);
}
