import { isDeepStrictEqual } from 'node:util';
import type { PaginationBreach } from '../../errors/pagination-drift.error.js';
import { pagesThatFit, rowsExpected, type EventSize, type Page } from './event-size.js';

/** A page compared with the size of its event and with the page before. */
export interface Comparison {
  /** What contradicts; empty where the page fits. */
  breaches: PaginationBreach[];
  /** True where the event ends before this page. */
  isBeyondEnd: boolean;
}

/**
 * Compares a page with the size of its event and with the page before. `totalCount` must be that of the event, and:
 *
 * | a page                        | `currentPage`    | `totalPages`             | rows                                          |
 * | ----------------------------- | ---------------- | ------------------------ | --------------------------------------------- |
 * | that is read first            | its number       | as many as fit the count | those due                                     |
 * | that is read later            | its number       | that of the event        | those due, and others than on the page before |
 * | beyond the end                | any              | as above                 | none. If it is read first, also as many as on the last page |
 * |                               |                  |                          | those of the page before: a breach, and still the end |
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
  // There is no page to compare it with: by the number of its rows.
  const isLikeLast =
    before === undefined && event.totalCount > 0 && rows.length === rowsExpected(event.totalPages, event);
  const isBeyondEnd = number > 1 && rowsDue === 0 && (rows.length === 0 || isRepeated || isLikeLast);
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
