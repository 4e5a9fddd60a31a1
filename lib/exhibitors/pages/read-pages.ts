import { Observable, type Subscriber } from 'rxjs';
import { onAbort } from '../../time/on-abort.js';
import { abortedCall, openScope } from '../call-scope.js';
import type { CallOptions } from '../call-options.interface.js';
import type { ExhibitorPage } from './exhibitor-page.interface.js';
import type { PageReader } from './page-reader.js';

/** Opens a walk for a call whose options are checked. */
export type OpenReader<C, T> = (call: C, signal: AbortSignal) => Promise<PageReader<T>>;

/** Gives every page of a walk to `visit`; the signal ends it. */
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

/** A cold Observable over a walk; `emit` decides what a page becomes. The next pages are asked for once it returns. */
export function fromPages<C extends CallOptions, T, R>(
  check: () => C,
  open: OpenReader<C, T>,
  emit: (page: ExhibitorPage<T>, subscriber: Subscriber<R>) => void,
): Observable<R> {
  return new Observable<R>((subscriber) => {
    const call = check();
    const scope = openScope(call.signal);
    subscriber.add(scope.close);
    open(call, scope.signal)
      .then((reader) => readPages(reader, scope.signal, (page) => emit(page, subscriber)))
      .then(
        () => subscriber.complete(),
        (error: unknown) => subscriber.error(error),
      );
  });
}

/** An iterator over the exhibitors of a walk. While one page is read the window fills, and never grows beyond. */
export function iteratePages<C extends CallOptions, T>(
  check: () => C,
  open: OpenReader<C, T>,
): AsyncIterableIterator<T> {
  const consumer = new AbortController();
  const items = itemsOf(check, open, consumer.signal);
  return {
    next: () => items.next(),
    // A generator finishes what is under way before it returns; leaving cancels that first.
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

async function* itemsOf<C extends CallOptions, T>(
  check: () => C,
  open: OpenReader<C, T>,
  left: AbortSignal,
): AsyncGenerator<T, undefined> {
  const call = check();
  const scope = openScope(call.signal);
  const endings = [onAbort(left, scope.close), scope.close];
  try {
    const reader = await open(call, scope.signal);
    endings.push(onAbort(scope.signal, () => reader.close(left.aborted ? undefined : abortedCall())));
    endings.push(() => reader.close());
    for (let page = await reader.next(); page !== undefined; page = await reader.next()) {
      reader.ahead();
      yield* page.data;
    }
  } catch (error) {
    // Whoever left does not want to hear that this cancelled something.
    if (!left.aborted) {
      throw error;
    }
  } finally {
    for (const end of endings) {
      end();
    }
  }
  return undefined;
}
