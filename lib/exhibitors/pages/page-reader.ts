import { publish } from '../../call/channels.js';
import { isExhibitorError } from '../../errors/is-exhibitor-error.js';
import { PaginationDriftError, type PaginationBreach } from '../../errors/pagination-drift.error.js';
import type { Call } from '../../call/call.js';
import type { StreamCall } from '../call-options.schema.js';
import type { ExhibitorPage, PaginationMetadata } from './exhibitor-page.interface.js';
import { breachesOf, isBeyondEnd, rowsExpected, sizeBreaches, type Page } from './page-drift.js';
import { PageWindow } from './page-window.js';

export interface ReadPlan<T> extends Pick<
  StreamCall,
  'itemsPerPage' | 'startPage' | 'maxPages' | 'prefetch' | 'onDrift' | 'expect'
> {
  /** Key of the tenant, for errors and diagnostics. */
  tenant: string;
  /** The call that reads. Its end is that of the reading. */
  call: Call;
  /** @param requests the part of that call for which pages are fetched */
  fetch(page: number, itemsPerPage: number, requests: Call): Promise<Page<T>>;
}

/**
 * Reads the pages of an event in order. Pages are fetched ahead, and each is compared with the first one. It closes itself when
 * its consumer leaves. Whoever leaves it before the last page must close it.
 */
export class PageReader<T> {
  readonly #window: PageWindow<Page<T>>;
  /** Ends with the reading: then requests under way are aborted. */
  readonly #requests: Call;
  #itemsPerPage: number;
  #first: PaginationMetadata | undefined;
  #before: Page | undefined;

  constructor(private readonly plan: ReadPlan<T>) {
    this.#itemsPerPage = plan.itemsPerPage;
    this.#requests = plan.call.part(Infinity);
    this.#window = new PageWindow(
      (page) => (page === 1 ? this.#fetch(1) : this.#fetchLater(page)),
      this.#requests,
      plan.prefetch,
      plan.startPage,
    );
  }

  /**
   * The next page; `undefined` after the last one.
   *
   * @throws {PaginationDriftError} where the page contradicts the first one and `onDrift` is `error`
   * @throws {ExhibitorError} `aborted` where the consumer has left
   */
  async next(): Promise<ExhibitorPage<T> | undefined> {
    const page = await this.#window.next();
    const { call, tenant } = this.plan;
    if (call.isOver) {
      throw call.failure({ tenant });
    }
    return page && this.#check(page);
  }

  /** Fetches ahead while the last page is being consumed. */
  fetchAhead(): void {
    this.#window.fetchAhead();
  }

  close(): void {
    this.#requests.abort();
  }

  #fetch(number: number): Promise<Page<T>> {
    return this.plan.fetch(number, this.#itemsPerPage, this.#requests);
  }

  /**
   * Fetches a page after page 1. The service may refuse a page beyond the end; page 1 then tells the size of the event, or that
   * there is no such event.
   */
  async #fetchLater(number: number): Promise<Page<T>> {
    try {
      return await this.#fetch(number);
    } catch (error) {
      if (!isExhibitorError(error) || !['not_found', 'request_rejected'].includes(error.code)) {
        throw error;
      }
      const { page } = await this.#fetch(1);
      const { totalCount, totalPages, itemsPerPage } = page.paginationMetadata;
      if (rowsExpected(number, page.paginationMetadata) > 0) {
        throw error;
      }
      const paginationMetadata = { currentPage: number, totalCount, totalPages, itemsPerPage };
      return { number, page: { paginationMetadata, data: [] }, rows: [] };
    }
  }

  #check(seen: Page<T>): ExhibitorPage<T> | undefined {
    const before = this.#before;
    const first = this.#first ?? seen.page.paginationMetadata;
    if (before === undefined) {
      this.#report(sizeBreaches(seen, this.plan.expect), 'error');
    }
    this.#report(breachesOf(seen, first, before), this.plan.onDrift);
    if (before === undefined) {
      this.#start(first);
    }
    if (isBeyondEnd(seen, first, before)) {
      return undefined;
    }
    this.#before = seen;
    return seen.page;
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

  #report(breaches: readonly PaginationBreach[], onDrift: StreamCall['onDrift']): void {
    const { tenant } = this.plan;
    const [worst] = breaches;
    if (onDrift === 'error' && worst !== undefined) {
      throw new PaginationDriftError(worst, this.#before?.number ?? 0, { tenant });
    }
    for (const breach of breaches) {
      publish('drift', () => ({ tenant, ...breach }));
    }
  }
}
