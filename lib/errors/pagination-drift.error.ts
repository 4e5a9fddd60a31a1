import { ExhibitorError, type ExhibitorErrorDetails } from './exhibitor.error.js';

/** One way in which a page contradicts the first page or itself. */
export interface PaginationBreach {
  /** Which promise was broken, for example `totalCount`. */
  field: string;
  /** What page 1, or the request, let us expect. */
  expected: number | string;
  /** What was seen. */
  seen: number | string;
  /** Number of the page that was asked for. */
  page: number;
}

/** The event changed while it was read, or its pages contradict themselves (`pagination_drift`). */
export class PaginationDriftError extends ExhibitorError {
  readonly breach: Readonly<PaginationBreach>;
  /** Number of the last page that was good and delivered; 0 if none was. Resume with `startPage: lastGoodPage + 1`. */
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
