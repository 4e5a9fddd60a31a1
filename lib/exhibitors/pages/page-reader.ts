import type { Subscription } from 'rxjs';
import { publish } from '../../call/channels.js';
import { isExhibitorError } from '../../errors/is-exhibitor-error.js';
import { PaginationDriftError, type PaginationBreach } from '../../errors/pagination-drift.error.js';
import { abortedCall } from '../call-runner.service.js';
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
  /** Its end is that of the reading, with `aborted`. */
  consumer?: Subscription;
  fetch(page: number, itemsPerPage: number, requests: Subscription): Promise<Page<T>>;
}

/**
 * Reads the pages of an event in order. Pages are fetched ahead, and each is compared with the first one. It closes itself when
 * its consumer leaves. Whoever leaves it before the last page must close it.
 */
export class PageReader<T> {
  readonly #window: PageWindow<Page<T>>;
  #itemsPerPage: number;
  #first: PaginationMetadata | undefined;
  #before: Page | undefined;

  constructor(private readonly plan: ReadPlan<T>) {
    this.#itemsPerPage = plan.itemsPerPage;
    this.#window = new PageWindow(
      (page, requests) =>
        page === 1 ? plan.fetch(1, this.#itemsPerPage, requests) : this.#fetchLater(page, requests),
      plan.prefetch,
      plan.startPage,
    );
    plan.consumer?.add(this.#leave);
  }

  /**
   * The next page; `undefined` after the last one.
   *
   * @throws {PaginationDriftError} where the page contradicts the first one and `onDrift` is `error`
   * @throws {ExhibitorError} `aborted` where the consumer has left
   */
  async next(): Promise<ExhibitorPage<T> | undefined> {
    const page = await this.#window.next();
    if (this.plan.consumer?.closed === true) {
      throw abortedCall();
    }
    return page && this.#check(page);
  }

  /** Fetches ahead while the last page is being consumed. */
  fetchAhead(): void {
    this.#window.fetchAhead();
  }

  close(): void {
    this.plan.consumer?.remove(this.#leave);
    this.#window.close();
  }

  readonly #leave = (): void => this.#window.close();

  /**
   * Fetches a page after page 1. The service may refuse a page beyond the end; page 1 then tells the size of the event, or that
   * there is no such event.
   */
  async #fetchLater(number: number, requests: Subscription): Promise<Page<T>> {
    try {
      return await this.plan.fetch(number, this.#itemsPerPage, requests);
    } catch (error) {
      if (!isExhibitorError(error) || !['not_found', 'request_rejected'].includes(error.code)) {
        throw error;
      }
      const { page } = await this.plan.fetch(1, this.#itemsPerPage, requests);
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
