import type { Call } from '../../call/call.js';

/** Fetches pages ahead and delivers them in order, those before a failed one too. At most `size` pages are being fetched or waiting. */
export class PageWindow<P> {
  readonly #replies: Promise<P>[] = [];
  #nextPage: number;
  #lastPage: number;

  /** Fetches only the page `first`, until {@link extendTo} is called. */
  constructor(
    private readonly fetch: (page: number) => Promise<P>,
    /** Nothing is fetched once it is over. */
    private readonly fetches: Call,
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
    while (!this.fetches.isOver && this.#replies.length < this.size && this.#nextPage <= this.#lastPage) {
      const reply = this.fetch(this.#nextPage);
      // Handles the rejection of a page that the reader never asks for.
      reply.catch(() => {});
      this.#replies.push(reply);
      this.#nextPage += 1;
    }
  }

  /** The next page in order; `undefined` after the last one. Call it again only after the promise has settled. */
  next(): Promise<P> | undefined {
    this.fetchAhead();
    return this.#replies.shift();
  }
}
