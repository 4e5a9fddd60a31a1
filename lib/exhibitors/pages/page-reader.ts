import { publish } from '../../call/channels.js';
import type { ExhibitorErrorCode } from '../../errors/error-codes.js';
import { isExhibitorError } from '../../errors/is-exhibitor-error.js';
import { PaginationDriftError, type PaginationBreach } from '../../errors/pagination-drift.error.js';
import type { Call } from '../../call/call.js';
import type { StreamCall } from '../call-runner.service.js';
import type { ExhibitorPage } from './exhibitor-page.interface.js';
import { eventSizeOf, rowsExpected, sizeBreaches, type EventSize, type Page } from './event-size.js';
import { comparePage } from './page-drift.js';
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
  /** @param fetches the part of that call for which pages are fetched */
  fetch(page: number, itemsPerPage: number, fetches: Call): Promise<Page<T>>;
}

/**
 * Reads the pages of an event in order. Pages are fetched ahead, and each must fit the size of the event that the first one tells.
 * It ends with the call of its plan. A loop that stops earlier must close it.
 */
export class PageReader<T> {
  readonly #window: PageWindow<Page<T>>;
  /** Ends with the reading: then requests under way are aborted. */
  readonly #fetches: Call;
  /** The page size that is requested. */
  #itemsPerPage: number;
  /** `undefined` before the first page. */
  #event: EventSize | undefined;
  /** The page that was returned last. */
  #before: Page | undefined;

  constructor(private readonly plan: ReadPlan<T>) {
    this.#itemsPerPage = plan.itemsPerPage;
    this.#fetches = plan.call.part(Infinity);
    this.#window = new PageWindow(
      (number) => this.#fetch(number),
      this.#fetches,
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

  /** Fetches ahead while the page that {@link next} has returned is being consumed. */
  fetchAhead(): void {
    this.#window.fetchAhead();
  }

  close(): void {
    this.#fetches.abort();
  }

  /**
   * Fetches a page. The service may refuse one beyond the end; page 1 then tells the size of the event, or that there is no such event.
   */
  async #fetch(number: number): Promise<Page<T>> {
    const { fetch } = this.plan;
    try {
      return await fetch(number, this.#itemsPerPage, this.#fetches);
    } catch (error) {
      if (number === 1 || !isExhibitorError(error) || !REFUSALS.has(error.code)) {
        throw error;
      }
      const { page } = await fetch(1, this.#itemsPerPage, this.#fetches);
      const { totalCount, totalPages, itemsPerPage } = page.paginationMetadata;
      if (rowsExpected(number, page.paginationMetadata) > 0) {
        throw error;
      }
      // Stands for the page that was refused.
      const paginationMetadata = { currentPage: number, totalCount, totalPages, itemsPerPage };
      return { number, page: { paginationMetadata, data: [] }, rows: [] };
    }
  }

  #check(seen: Page<T>): ExhibitorPage<T> | undefined {
    const event = this.#event ?? this.#begin(seen);
    const { breaches, isBeyondEnd } = comparePage(seen, event, this.#before);
    this.#report(breaches, this.plan.onDrift);
    // Also where drift is ignored: a stream ends there, whatever number of pages the service claims.
    if (isBeyondEnd) {
      return undefined;
    }
    this.#before = seen;
    return seen.page;
  }

  /** The first page tells how many pages there are, and their size. Another size than `expect` is an error also where drift is ignored. */
  #begin(first: Page<T>): EventSize {
    const { expect, startPage, maxPages } = this.plan;
    const event = eventSizeOf(first, this.#itemsPerPage, expect?.itemsPerPage);
    this.#report(sizeBreaches(event, expect, first.number), 'error');
    // If the service limits the page size, that size is requested, so that page numbers and offsets agree.
    if (event.itemsPerPage > 0) {
      this.#itemsPerPage = Math.min(event.itemsPerPage, this.#itemsPerPage);
    }
    const lastWanted = maxPages === undefined ? Infinity : startPage + maxPages - 1;
    this.#window.extendTo(Math.min(event.totalPages, lastWanted));
    this.#event = event;
    return event;
  }

  #report(breaches: readonly PaginationBreach[], onDrift: StreamCall['onDrift']): void {
    const { tenant } = this.plan;
    const [first] = breaches;
    if (onDrift === 'error' && first !== undefined) {
      throw new PaginationDriftError(first, this.#before?.number ?? 0, { tenant });
    }
    for (const breach of breaches) {
      publish('drift', () => ({ tenant, ...breach }));
    }
  }
}
