import { channels } from '../../diagnostics/channels.js';
import type { ExhibitorError } from '../../errors/exhibitor.error.js';
import { PaginationDriftError, type PaginationBreach } from '../../errors/pagination-drift.error.js';
import type { StreamCall } from '../check-arguments.js';
import type { ExhibitorPage, PaginationMetadata } from './exhibitor-page.interface.js';
import { breachesOf, isBehindTheEnd, type SeenPage } from './page-consistency.js';
import { PageWindow } from './page-window.js';

/** A page, and its rows as they were before any schema: the wire is what can contradict itself. */
export interface FetchedPage<T> {
  page: ExhibitorPage<T>;
  rows: readonly unknown[];
}

/** How to walk an event. */
export interface ReadPlan<T> extends Pick<
  StreamCall,
  'itemsPerPage' | 'startPage' | 'maxPages' | 'prefetch' | 'onDrift'
> {
  /** Key of the tenant, for errors and diagnostics. */
  tenant: string;
  fetch(page: number, itemsPerPage: number, signal: AbortSignal): Promise<FetchedPage<T>>;
}

/** Walks the pages of an event in order: fetched ahead in a window, each held against the first. */
export class PageReader<T> {
  readonly #plan: ReadPlan<T>;
  readonly #window: PageWindow<FetchedPage<T>>;
  #itemsPerPage: number;
  #first: PaginationMetadata | undefined;
  #before: SeenPage | undefined;
  #closed = false;
  #reason: ExhibitorError | undefined;

  constructor(plan: ReadPlan<T>) {
    this.#plan = plan;
    this.#itemsPerPage = plan.itemsPerPage;
    this.#window = new PageWindow(
      (page, signal) => plan.fetch(page, this.#itemsPerPage, signal),
      plan.prefetch,
      plan.startPage,
    );
  }

  /**
   * The next page; `undefined` behind the last one, or once closed.
   *
   * @throws {PaginationDriftError} where the page contradicts the first one and `onDrift` is `error`
   */
  async next(): Promise<ExhibitorPage<T> | undefined> {
    try {
      const fetched = await this.#window.next();
      return this.#closed ? this.#end() : fetched && this.#judge(fetched);
    } catch (error) {
      if (this.#closed) {
        return this.#end();
      }
      this.close();
      throw error;
    }
  }

  /** Fetches ahead while the page last given is being read. */
  ahead(): void {
    this.#window.ahead();
  }

  /** Cancels what is under way. With a reason, `next` fails with it; else there is no next page. */
  close(reason?: ExhibitorError): void {
    if (this.#closed) {
      return;
    }
    this.#closed = true;
    this.#reason = reason;
    this.#window.close();
  }

  #judge({ page, rows }: FetchedPage<T>): ExhibitorPage<T> | undefined {
    const before = this.#before;
    const asked = before === undefined ? this.#plan.startPage : before.asked + 1;
    const seen = { asked, metadata: page.paginationMetadata, rows };
    const first = this.#first ?? seen.metadata;
    const breaches = breachesOf(seen, first, before);
    if (breaches.length > 0) {
      this.#report(breaches);
    }
    if (before === undefined) {
      this.#begin(first);
    }
    if (isBehindTheEnd(seen, first, before)) {
      this.close();
      return undefined;
    }
    this.#before = seen;
    return page;
  }

  /** What was under way failed because the walk was closed: only the reason for that counts. */
  #end(): undefined {
    if (this.#reason !== undefined) {
      throw this.#reason;
    }
    return undefined;
  }

  #begin(first: PaginationMetadata): void {
    this.#first = first;
    // A service that clamps the page size is asked for the size it gives, so that pages and offsets agree.
    if (first.itemsPerPage > 0) {
      this.#itemsPerPage = Math.min(first.itemsPerPage, this.#itemsPerPage);
    }
    const { startPage, maxPages } = this.#plan;
    this.#window.extendTo(
      Math.min(first.totalPages, maxPages === undefined ? Infinity : startPage + maxPages - 1),
    );
  }

  #report(breaches: readonly PaginationBreach[]): void {
    const { tenant, onDrift } = this.#plan;
    const [worst] = breaches;
    if (onDrift === 'error' && worst !== undefined) {
      throw new PaginationDriftError(worst, this.#before?.asked ?? 0, { tenant });
    }
    if (!channels.drift.hasSubscribers) {
      return;
    }
    for (const breach of breaches) {
      channels.drift.publish({ tenant, ...breach });
    }
  }
}
