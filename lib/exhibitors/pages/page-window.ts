import { Subscription } from 'rxjs';

/**
 * Fetches pages ahead and delivers them in order. At most `size` pages are being fetched or waiting. After a page fails, no
 * further page is requested; the pages before it are still delivered.
 */
export class PageWindow<P> {
  /** Its end aborts the requests under way. */
  readonly #requests = new Subscription();
  readonly #replies: Promise<P>[] = [];
  #nextPage: number;
  #lastPage: number;
  #isStopped = false;

  /** Fetches only the page `first`, until {@link extendTo} is called. */
  constructor(
    private readonly fetch: (page: number, requests: Subscription) => Promise<P>,
    private readonly size: number,
    first: number,
  ) {
    this.#nextPage = first;
    this.#lastPage = first;
  }

  extendTo(last: number): void {
    this.#lastPage = last;
  }

  fetchAhead(): void {
    while (!this.#isStopped && this.#replies.length < this.size && this.#nextPage <= this.#lastPage) {
      this.#replies.push(this.#start(this.#nextPage));
      this.#nextPage += 1;
    }
  }

  /** The next page in order; `undefined` after the last one. Call it again only after the promise has settled. */
  next(): Promise<P> | undefined {
    this.fetchAhead();
    return this.#replies.shift();
  }

  close(): void {
    this.#isStopped = true;
    this.#requests.unsubscribe();
  }

  #start(page: number): Promise<P> {
    const reply = this.fetch(page, this.#requests);
    // Also handles the rejection of a page that the reader never asks for.
    reply.catch(() => {
      this.#isStopped = true;
    });
    return reply;
  }
}
