import { publish } from '../../call/channels.js';
import type { ExhibitorErrorCode } from '../../errors/error-codes.js';
import { isExhibitorError } from '../../errors/is-exhibitor-error.js';
import { PaginationDriftError, type PaginationBreach } from '../../errors/pagination-drift.error.js';
import type { Call } from '../../call/call.js';
import type { StreamCall } from '../call-options.schema.js';
import type { ExhibitorPage, PaginationMetadata } from './exhibitor-page.interface.js';
import { breachesOf, isBeyondEnd, rowsExpected, sizeBreaches, type Page } from './page-drift.js';
import { PageWindow } from './page-window.js';

/** What a service may answer to a page beyond the end of an event. */
const REFUSALS: ReadonlySet<ExhibitorErrorCode> = new Set(['not_found', 'request_rejected']);

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
  /** The page size that is requested. */
  #itemsPerPage: number;
  /** Of the first page: the size of the event. `undefined` before that page. */
  #first: PaginationMetadata | undefined;
  /** The page that was returned last. */
  #before: Page | undefined;

  constructor(private readonly plan: ReadPlan<T>) {
    this.#itemsPerPage = plan.itemsPerPage;
    this.#requests = plan.call.part(Infinity);
    this.#window = new PageWindow(
      (number) => this.#fetch(number),
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

  /**
   * Fetches a page. The service may refuse one beyond the end; page 1 then tells the size of the event, or that there is no such event.
   */
  async #fetch(number: number): Promise<Page<T>> {
    const { fetch } = this.plan;
    try {
      return await fetch(number, this.#itemsPerPage, this.#requests);
    } catch (error) {
      if (number === 1 || !isExhibitorError(error) || !REFUSALS.has(error.code)) {
        throw error;
      }
      const { page } = await fetch(1, this.#itemsPerPage, this.#requests);
      const { totalCount, totalPages, itemsPerPage } = page.paginationMetadata;
      if (rowsExpected(number, page.paginationMetadata) > 0) {
        throw error;
      }
      const paginationMetadata = { currentPage: number, totalCount, totalPages, itemsPerPage };
      return { number, page: { paginationMetadata, data: [] }, rows: [] };
    }
  }

  #check(seen: Page<T>): ExhibitorPage<T> | undefined {
    const first = this.#first ?? this.#start(seen);
    const before = this.#before;
    this.#report(breachesOf(seen, first, before), this.plan.onDrift);
    if (isBeyondEnd(seen, first, before)) {
      return undefined;
    }
    this.#before = seen;
    return seen.page;
  }

  /** The first page tells how many there are, and their size. */
  #start(seen: Page<T>): PaginationMetadata {
    const { expect, startPage, maxPages } = this.plan;
    this.#report(sizeBreaches(seen, expect), 'error');
    const first = seen.page.paginationMetadata;
    this.#first = first;
    // If the service limits the page size, that size is requested, so that page numbers and offsets agree.
    if (first.itemsPerPage > 0) {
      this.#itemsPerPage = Math.min(first.itemsPerPage, this.#itemsPerPage);
    }
    this.#window.extendTo(
      Math.min(first.totalPages, maxPages === undefined ? Infinity : startPage + maxPages - 1),
    );
    return first;
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
