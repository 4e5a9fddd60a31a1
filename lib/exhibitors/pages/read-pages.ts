import type { Observable, Subscriber } from 'rxjs';
import type { CallOptions } from '../call-options.interface.js';
import { fromCall, openScope, type Call, type CallScope } from '../call-scope.js';
import type { ExhibitorPage } from './exhibitor-page.interface.js';
import type { PageReader } from './page-reader.js';

export type OpenReader<Options extends CallOptions, T> = (call: Call<Options>) => Promise<PageReader<T>>;

/** The pages of a reader, which is closed after the last one and when the loop is left. */
export async function* pagesOf<T>(reader: PageReader<T>): AsyncGenerator<ExhibitorPage<T>, undefined> {
  try {
    for (let page = await reader.next(); page !== undefined; page = await reader.next()) {
      yield page;
    }
  } finally {
    reader.close();
  }
  return undefined;
}

/** A cold Observable of the pages of a reader. `emit` passes a page to the subscriber; then the next pages are requested. */
export function fromPages<Options extends CallOptions, T, R>(
  check: () => Options,
  open: OpenReader<Options, T>,
  emit: (page: ExhibitorPage<T>, subscriber: Subscriber<R>) => void,
): Observable<R> {
  return fromCall(check, async (options, subscriber: Subscriber<R>) => {
    const { signal, close } = openScope(options.signal);
    subscriber.add(close);
    for await (const page of pagesOf(await open({ ...options, signal }))) {
      emit(page, subscriber);
    }
  });
}

/**
 * An iterator over the pages of a reader, or over their exhibitors. While a page is consumed, at most `prefetch` further pages
 * are fetched.
 */
export class PageIterator<Options extends CallOptions, T, R> implements AsyncIterableIterator<R> {
  readonly #items: AsyncGenerator<R, undefined>;
  #scope: CallScope | undefined;
  #hasLeft = false;

  /**
   * Options are checked by the first step, whose promise a wrong one rejects.
   *
   * @param itemsOf what the consumer gets of a page, one after the other
   */
  constructor(
    check: () => Options,
    open: OpenReader<Options, T>,
    private readonly itemsOf: (page: ExhibitorPage<T>) => readonly R[],
  ) {
    this.#items = this.#read(check, open);
  }

  next(): Promise<IteratorResult<R, undefined>> {
    return this.#items.next();
  }

  /** The consumer leaves. A generator finishes its current step before it returns: to close the scope ends that step. */
  return(): Promise<IteratorResult<R, undefined>> {
    this.#hasLeft = true;
    this.#scope?.close();
    return this.#items.return(undefined);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async *#read(check: () => Options, open: OpenReader<Options, T>): AsyncGenerator<R, undefined> {
    const options = check();
    const scope = openScope(options.signal);
    this.#scope = scope;
    try {
      const reader = await open({ ...options, signal: scope.signal });
      for await (const page of pagesOf(reader)) {
        reader.fetchAhead();
        yield* this.itemsOf(page);
      }
    } catch (error) {
      // A consumer that has left is not told that its requests were aborted.
      if (!this.#hasLeft) {
        throw error;
      }
    } finally {
      scope.close();
    }
    return undefined;
  }
}
