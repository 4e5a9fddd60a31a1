/** Fetches one page; the signal cancels it. */
export type FetchPage<P> = (page: number, signal: AbortSignal) => Promise<P>;

interface Slot<P> {
  readonly controller: AbortController;
  readonly reply: Promise<P>;
}

/**
 * Pages in order, fetched ahead: at most `size` of them are under way or waiting. What arrives early waits in its slot.
 * A page that fails cancels those behind it, and nothing more is started; the pages before it are still given.
 */
export class PageWindow<P> {
  readonly #fetch: FetchPage<P>;
  readonly #size: number;
  #slots: Slot<P>[] = [];
  #following: number;
  #last: number;
  #stopped = false;

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
    while (!this.#stopped && this.#slots.length < this.#size && this.#following <= this.#last) {
      this.#slots.push(this.#start(this.#following));
      this.#following += 1;
    }
  }

  /** The page that is next in order; `undefined` behind the last, or once closed. */
  async next(): Promise<P | undefined> {
    this.ahead();
    const [slot] = this.#slots;
    if (slot === undefined) return undefined;
    const page = await slot.reply;
    if (this.#slots[0] !== slot) return undefined;
    this.#slots.shift();
    return page;
  }

  /** Cancels everything under way and starts nothing more. */
  close(): void {
    this.#stopped = true;
    this.#cancelFrom(0);
  }

  #start(page: number): Slot<P> {
    const controller = new AbortController();
    const slot: Slot<P> = { controller, reply: this.#fetch(page, controller.signal) };
    slot.reply.catch(() => this.#failed(slot));
    return slot;
  }

  #failed(slot: Slot<P>): void {
    const index = this.#slots.indexOf(slot);
    if (index === -1) return;
    this.#stopped = true;
    this.#cancelFrom(index + 1);
  }

  #cancelFrom(index: number): void {
    for (const { controller } of this.#slots.splice(index)) controller.abort();
  }
}
