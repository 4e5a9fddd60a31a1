/** Fetches one page; the signal cancels it. */
export type FetchPage<P> = (page: number, signal: AbortSignal) => Promise<P>;

/**
 * Pages in order, fetched ahead: at most `size` of them are under way or waiting. What arrives early waits in its place.
 * Once a page has failed nothing more is started; the pages before it are still given, then it fails the reader.
 */
export class PageWindow<P> {
  readonly #fetch: FetchPage<P>;
  readonly #size: number;
  // One signal for all pages: making one for each, with a listener, costs more than everything else here together.
  readonly #controller = new AbortController();
  readonly #replies: Promise<P>[] = [];
  #following: number;
  #last: number;
  #stopped = false;
  #isRead = false;

  /** Reads the page `first` only, until {@link extendTo} tells how far it goes. */
  constructor(fetch: FetchPage<P>, size: number, first: number) {
    this.#fetch = fetch;
    this.#size = size;
    this.#following = first;
    this.#last = first;
  }

  /** Number of the last page to read. */
  extendTo(last: number): void {
    this.#last = last;
  }

  /** Starts what fits into the window. */
  ahead(): void {
    while (!this.#stopped && this.#replies.length < this.#size && this.#following <= this.#last) {
      this.#replies.push(this.#start(this.#following));
      this.#following += 1;
    }
  }

  /** The page that is next in order; `undefined` behind the last. Not asked for again before it is there. */
  next(): Promise<P> | undefined {
    this.ahead();
    const reply = this.#replies.shift();
    this.#isRead = reply === undefined;
    return reply;
  }

  /** Cancels everything under way and starts nothing more. */
  close(): void {
    this.#stopped = true;
    if (!this.#isRead) {
      this.#controller.abort();
    }
  }

  #start(page: number): Promise<P> {
    const reply = this.#fetch(page, this.#controller.signal);
    // Handled here too, since a reader who leaves never looks at it.
    reply.catch(() => {
      this.#stopped = true;
    });
    return reply;
  }
}
