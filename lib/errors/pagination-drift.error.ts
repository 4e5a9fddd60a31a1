import { ExhibitorError, type ExhibitorErrorDetails } from './exhibitor.error.js';

/** A contradiction between a page and the first page, or within a page. */
export interface PaginationBreach {
  /** Name of the value, for example `totalCount`. */
  field: string;
  /** Value according to page 1, the request or the option `expect`. */
  expected: number | string;
  /** Actual value. */
  seen: number | string;
  /** Number of the requested page. */
  page: number;
}

/** The event changed during the reading, or its pages contradict each other (`pagination_drift`). */
export class PaginationDriftError extends ExhibitorError {
  declare readonly code: 'pagination_drift';
  readonly breach: Readonly<PaginationBreach>;
  /** Number of the last page that was delivered; 0 if none was. Resume with `startPage: lastGoodPage + 1`. */
  readonly lastGoodPage: number;

  constructor(breach: PaginationBreach, lastGoodPage: number, details?: ExhibitorErrorDetails) {
    super(
      'pagination_drift',
      `page ${breach.page}: ${breach.field} is ${breach.seen}, expected ${breach.expected}`,
      details,
    );
    this.breach = breach;
    this.lastGoodPage = lastGoodPage;
  }
}
