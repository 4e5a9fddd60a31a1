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
 * The size of an event as the first page of a reading tells it, not as requested: the service may limit the page size. Some services
 * report the number of rows as the page size of the last page. A reading that starts there, or beyond it, cannot see the page size.
 *
 * @param pageSize taken where the page size cannot be seen
 */
export function eventSizeOf({ number, page, rows }: Page, pageSize: number): EventSize {
  const { totalCount, totalPages, itemsPerPage } = page.paginationMetadata;
  const reported = { totalCount, totalPages, itemsPerPage };
  const isLastOrBeyond = number > 1 && number >= totalPages;
  const reportsRowsAsPageSize = itemsPerPage === rows.length && pagesThatFit(reported) !== totalPages;
  return isLastOrBeyond && reportsRowsAsPageSize ? { ...reported, itemsPerPage: pageSize } : reported;
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
 * Compares a page with the size of its event and with the page before. A page beyond the end may have any number.
 *
 * @param before `undefined` for the first page of a reading, which must agree with itself
 */
export function comparePage(seen: Page, event: EventSize, before: Page | undefined): Comparison {
  const { number, rows } = seen;
  const { currentPage, totalCount, totalPages, itemsPerPage } = seen.page.paginationMetadata;
  const isFirstRead = before === undefined;
  const rowsDue = rowsExpected(number, event);
  const isBeyondEnd = number > 1 && rowsDue === 0 && isNothingNew(rows, event, before);
  // Some services number the only page of an empty event 0.
  const isEmptyEvent = number === 1 && currentPage === 0 && event.totalCount === 0;

  const breaches: PaginationBreach[] = [];
  const expect = (field: string, expected: number | string, received: number | string): void => {
    if (received !== expected) {
      breaches.push({ field, expected, seen: received, page: number });
    }
  };
  if (!isBeyondEnd && !isEmptyEvent) {
    expect('currentPage', number, currentPage);
  }
  expect('totalCount', event.totalCount, totalCount);
  // Another page size alone does no harm, as some services report one for the last page. Only more rows than it allows do.
  if (rows.length > itemsPerPage) {
    expect('itemsPerPage', event.itemsPerPage, itemsPerPage);
  }
  // The first page that is read tells the size of the event: only its own numbers can contradict.
  expect('totalPages', isFirstRead ? pagesThatFit(event) : event.totalPages, totalPages);
  if (!isBeyondEnd) {
    expect('data.length', rowsDue, rows.length);
  }
  if (!isFirstRead && isRepeated(rows, before)) {
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

/** Number of pages that fits the count. An event without exhibitors has no page, or an empty one. */
function pagesThatFit({ totalCount, totalPages, itemsPerPage }: EventSize): number {
  if (totalCount === 0) {
    return Math.min(totalPages, 1);
  }
  // With a page size of 0 no number of pages fits, which -1 stands for.
  return itemsPerPage === 0 ? -1 : Math.ceil(totalCount / itemsPerPage);
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
