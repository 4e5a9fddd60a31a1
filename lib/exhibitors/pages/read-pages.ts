import { Observable, type Subscriber } from 'rxjs';
import { onAbort } from '../../time/on-abort.js';
import type { CallOptions } from '../call-options.interface.js';
import { abortedCall, openScope, type Call } from '../call-scope.js';
import type { ExhibitorPage } from './exhibitor-page.interface.js';
import type { PageReader } from './page-reader.js';

/** Opens a reader for a checked call. */
export type OpenReader<Options extends CallOptions, T> = (call: Call<Options>) => Promise<PageReader<T>>;

/** Reads all pages and passes each to `visit`. The signal ends the reading with `aborted`. */
export async function readPages<T>(
  reader: PageReader<T>,
  signal: AbortSignal,
  visit: (page: ExhibitorPage<T>) => void,
): Promise<void> {
  const forget = onAbort(signal, () => reader.close(abortedCall()));
  try {
    for (let page = await reader.next(); page !== undefined; page = await reader.next()) {
      visit(page);
    }
  } finally {
    forget();
    reader.close();
  }
}

/** A cold Observable of the pages of a reader. `emit` passes a page to the subscriber; then the next pages are requested. */
export function fromPages<Options extends CallOptions, T, R>(
  check: () => Options,
  open: OpenReader<Options, T>,
  emit: (page: ExhibitorPage<T>, subscriber: Subscriber<R>) => void,
): Observable<R> {
  return new Observable<R>((subscriber) => {
    const options = check();
    const { signal, close } = openScope(options.signal);
    subscriber.add(close);
    open({ ...options, signal })
      .then((reader) => readPages(reader, signal, (page) => emit(page, subscriber)))
      .then(
        () => subscriber.complete(),
        (error: unknown) => subscriber.error(error),
      );
  });
}

/** An iterator over the exhibitors of a reader. While a page is consumed, at most `prefetch` further pages are fetched. */
export function iteratePages<Options extends CallOptions, T>(
  check: () => Options,
  open: OpenReader<Options, T>,
): AsyncIterableIterator<T> {
  const consumer = new AbortController();
  const items = itemsOf(check, open, consumer.signal);
  return {
    next: () => items.next(),
    // A generator finishes its current step before it returns; aborting first cancels that step.
    return: () => {
      consumer.abort();
      return items.return(undefined);
    },
    throw: (error: unknown) => {
      consumer.abort();
      return items.throw(error);
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

async function* itemsOf<Options extends CallOptions, T>(
  check: () => Options,
  open: OpenReader<Options, T>,
  left: AbortSignal,
): AsyncGenerator<T, undefined> {
  const options = check();
  const { signal, close } = openScope(options.signal);
  const cleanUp = [onAbort(left, close), close];
  try {
    const reader = await open({ ...options, signal });
    cleanUp.push(onAbort(signal, () => reader.close(left.aborted ? undefined : abortedCall())));
    cleanUp.push(() => reader.close());
    for (let page = await reader.next(); page !== undefined; page = await reader.next()) {
      reader.fetchAhead();
      yield* page.data;
    }
  } catch (error) {
    // A consumer that has left is not told that its requests were aborted.
    if (!left.aborted) {
      throw error;
    }
  } finally {
    for (const step of cleanUp) {
      step();
    }
  }
  return undefined;
}
