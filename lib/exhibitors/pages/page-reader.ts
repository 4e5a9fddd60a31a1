import { publish } from '../../diagnostics/channels.js';
import type { ExhibitorError } from '../../errors/exhibitor.error.js';
import { PaginationDriftError, type PaginationBreach } from '../../errors/pagination-drift.error.js';
import type { StreamCall } from '../check-arguments.js';
import type { ExhibitorPage, PaginationMetadata } from './exhibitor-page.interface.js';
import { breachesOf, isBeyondEnd, type SeenPage } from './page-drift.js';
import { PageWindow } from './page-window.js';

/** A page, and its rows before any schema: consistency is checked on the rows of the wire. */
export interface FetchedPage<T> {
  page: ExhibitorPage<T>;
  rows: readonly unknown[];
}

/** How to read an event. */
export interface ReadPlan<T> extends Pick<
  StreamCall,
  'itemsPerPage' | 'startPage' | 'maxPages' | 'prefetch' | 'onDrift'
> {
  /** Key of the tenant, for errors and diagnostics. */
  tenant: string;
  fetch(page: number, itemsPerPage: number, signal: AbortSignal): Promise<FetchedPage<T>>;
}

/** Reads the pages of an event in order. Pages are fetched ahead, and each is compared with the first one. */
export class PageReader<T> {
  readonly #window: PageWindow<FetchedPage<T>>;
  #itemsPerPage: number;
  #first: PaginationMetadata | undefined;
  #before: SeenPage | undefined;
  #isClosed = false;
  #closeReason: ExhibitorError | undefined;

  constructor(private readonly plan: ReadPlan<T>) {
    this.#itemsPerPage = plan.itemsPerPage;
    this.#window = new PageWindow(
      (page, signal) => plan.fetch(page, this.#itemsPerPage, signal),
      plan.prefetch,
      plan.startPage,
    );
  }

  /**
   * The next page; `undefined` after the last one, or once closed without a reason.
   *
   * @throws {PaginationDriftError} where the page contradicts the first one and `onDrift` is `error`
   */
  async next(): Promise<ExhibitorPage<T> | undefined> {
    try {
      const fetched = await this.#window.next();
      return this.#isClosed ? this.#closedResult() : fetched && this.#check(fetched);
    } catch (error) {
      if (this.#isClosed) {
        return this.#closedResult();
      }
      this.close();
      throw error;
    }
  }

  /** Fetches ahead while the last page is being consumed. */
  fetchAhead(): void {
    this.#window.fetchAhead();
  }

  /** Aborts all requests. With a reason, `next` fails with it; without, `next` answers `undefined`. */
  close(reason?: ExhibitorError): void {
    if (this.#isClosed) {
      return;
    }
    this.#isClosed = true;
    this.#closeReason = reason;
    this.#window.close();
  }

  #check({ page, rows }: FetchedPage<T>): ExhibitorPage<T> | undefined {
    const before = this.#before;
    const requested = before === undefined ? this.plan.startPage : before.requested + 1;
    const seen = { requested, metadata: page.paginationMetadata, rows };
    const first = this.#first ?? seen.metadata;
    const breaches = breachesOf(seen, first, before);
    if (breaches.length > 0) {
      this.#report(breaches);
    }
    if (before === undefined) {
      this.#start(first);
    }
    if (isBeyondEnd(seen, first, before)) {
      this.close();
      return undefined;
    }
    this.#before = seen;
    return page;
  }

  /** Requests that fail because the reader was closed are ignored; only the reason counts. */
  #closedResult(): undefined {
    if (this.#closeReason !== undefined) {
      throw this.#closeReason;
    }
    return undefined;
  }

  #start(first: PaginationMetadata): void {
    this.#first = first;
    // If the service limits the page size, that size is requested, so that page numbers and offsets agree.
    if (first.itemsPerPage > 0) {
      this.#itemsPerPage = Math.min(first.itemsPerPage, this.#itemsPerPage);
    }
    const { startPage, maxPages } = this.plan;
    this.#window.extendTo(
      Math.min(first.totalPages, maxPages === undefined ? Infinity : startPage + maxPages - 1),
    );
  }

  #report(breaches: readonly PaginationBreach[]): void {
    const { tenant, onDrift } = this.plan;
    const [worst] = breaches;
    if (onDrift === 'error' && worst !== undefined) {
      throw new PaginationDriftError(worst, this.#before?.requested ?? 0, { tenant });
    }
    for (const breach of breaches) {
      publish('drift', () => ({ tenant, ...breach }));
    }
  }
}
