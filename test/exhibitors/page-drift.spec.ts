import { describe, expect, it } from '@jest/globals';
import type { PaginationMetadata } from '../../lib/exhibitors/pages/exhibitor-page.interface.js';
import {
  breachesOf,
  isRepeated,
  rowsExpected,
  type SeenPage,
} from '../../lib/exhibitors/pages/page-drift.js';

const first: PaginationMetadata = { currentPage: 1, totalCount: 120, totalPages: 3, itemsPerPage: 50 };

function page(requested: number, rows: number, metadata: Partial<PaginationMetadata> = {}): SeenPage {
  return {
    requested,
    metadata: { ...first, currentPage: requested, ...metadata },
    rows: Array.from({ length: rows }, (_, index) => ({ id: `${requested}-${index}` })),
  };
}

describe('a page compared with the first page', () => {
  it('is consistent when its numbers agree and its rows are complete', () => {
    expect(breachesOf(page(2, 50), first, page(1, 50))).toEqual([]);
    expect(breachesOf(page(3, 20), first, page(2, 50))).toEqual([]);
    // Some services report another page size for the last page.
    expect(breachesOf(page(3, 20, { itemsPerPage: 20 }), first, page(2, 50))).toEqual([]);
  });

  it.each<[string, SeenPage, object]>([
    [
      'another page came',
      page(2, 50, { currentPage: 1 }),
      { field: 'currentPage', expected: 2, seen: 1, page: 2 },
    ],
    [
      'the event grew',
      page(2, 50, { totalCount: 121 }),
      { field: 'totalCount', expected: 120, seen: 121, page: 2 },
    ],
    [
      'the pages grew',
      page(2, 50, { totalPages: 4 }),
      { field: 'totalPages', expected: 3, seen: 4, page: 2 },
    ],
    [
      'the page size changed',
      page(2, 50, { itemsPerPage: 40 }),
      { field: 'itemsPerPage', expected: 50, seen: 40, page: 2 },
    ],
    ['it holds too much', page(2, 51), { field: 'data.length', expected: 50, seen: 51, page: 2 }],
    ['it is empty before the end', page(2, 0), { field: 'data.length', expected: 50, seen: 0, page: 2 }],
    ['it is short before the end', page(2, 49), { field: 'data.length', expected: 50, seen: 49, page: 2 }],
    ['the last page is short', page(3, 19), { field: 'data.length', expected: 20, seen: 19, page: 3 }],
  ])('is inconsistent where %s', (_name, seen, breach) => {
    expect(breachesOf(seen, first, page(1, 50))).toEqual([breach]);
  });

  it('is inconsistent where it repeats the rows of the page before', () => {
    const before = page(1, 50);
    const repeated = { ...page(2, 50), rows: JSON.parse(JSON.stringify(before.rows)) };
    expect(breachesOf(repeated, first, before)).toEqual([
      { field: 'data', expected: 'other rows', seen: 'the rows of page 1', page: 2 },
    ]);
  });
});

const own = (metadata: PaginationMetadata, rows: number) =>
  breachesOf({ requested: 1, metadata, rows: Array.from({ length: rows }, () => ({})) }, metadata, undefined);

describe('the first page', () => {
  it('is inconsistent where totalPages does not fit totalCount', () => {
    expect(own({ ...first, totalPages: 4 }, 50)).toEqual([
      { field: 'totalPages', expected: 3, seen: 4, page: 1 },
    ]);
  });

  it('is inconsistent where there are exhibitors but no page size', () => {
    expect(own({ ...first, itemsPerPage: 0 }, 0).map(({ field }) => field)).toEqual(['totalPages']);
  });

  it.each([
    [0, 1],
    [1, 1],
    [0, 0],
  ])('may have %i pages and the number %i where the event is empty', (totalPages, currentPage) => {
    expect(own({ currentPage, totalCount: 0, totalPages, itemsPerPage: 50 }, 0)).toEqual([]);
  });

  it('is inconsistent where an empty event has rows', () => {
    expect(own({ currentPage: 1, totalCount: 0, totalPages: 0, itemsPerPage: 50 }, 3)).toEqual([
      { field: 'data.length', expected: 0, seen: 3, page: 1 },
    ]);
  });
});

describe('the rows of a page', () => {
  it('are as many as totalCount and page size of the first page require', () => {
    expect([1, 2, 3, 4].map((number) => rowsExpected(number, first))).toEqual([50, 50, 20, 0]);
  });

  it('count as repeated only where all of them are, in any order of their members', () => {
    expect(isRepeated([{ a: 1, b: 2 }], [{ b: 2, a: 1 }])).toBe(true);
    expect(isRepeated([{ id: 1 }, { id: 2 }], [{ id: 1 }, { id: 3 }])).toBe(false);
    expect(isRepeated([{ id: 1 }], [{ id: 1 }, { id: 2 }])).toBe(false);
    expect(isRepeated([], [])).toBe(false);
  });
});
