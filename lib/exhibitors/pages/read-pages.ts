import type { Observable, Subscriber } from 'rxjs';
import { onAbort } from '../../time/on-abort.js';
import type { CallOptions } from '../call-options.interface.js';
import { abortedCall, fromCall, openScope, type Call } from '../call-scope.js';
import type { ExhibitorPage } from './exhibitor-page.interface.js';
import type { PageReader } from './page-reader.js';

/** Opens a reader for a checked call. */
export type OpenReader<Options extends CallOptions, T> = (call: Call<Options>) => Promise<PageReader<T>>;

/** The pages of a reader. The signal ends the reading with `aborted`; to leave the loop aborts the requests under way. */
export async function* pagesOf<T>(
  reader: PageReader<T>,
  signal: AbortSignal,
): AsyncGenerator<ExhibitorPage<T>, undefined> {
  const forget = onAbort(signal, () => reader.close());
  try {
    for (let page = await nextOf(reader, signal); page !== undefined; page = await nextOf(reader, signal)) {
      yield page;
    }
  } finally {
    forget();
    reader.close();
  }
  return undefined;
}

async function nextOf<T>(reader: PageReader<T>, signal: AbortSignal): Promise<ExhibitorPage<T> | undefined> {
  const page = await reader.next().catch((error: unknown) => {
    // A request that fails because the signal aborted it is ignored.
    if (!signal.aborted) {
      throw error;
    }
    return undefined;
  });
  if (signal.aborted) {
    throw abortedCall();
  }
  return page;
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
    for await (const page of pagesOf(await open({ ...options, signal }), signal)) {
      emit(page, subscriber);
    }
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
  const forget = onAbort(left, close);
  try {
    const reader = await open({ ...options, signal });
    for await (const page of pagesOf(reader, signal)) {
      reader.fetchAhead();
      yield* page.data;
    }
  } catch (error) {
    // A consumer that has left is not told that its requests were aborted.
    if (!left.aborted) {
      throw error;
    }
  } finally {
    forget();
    close();
  }
  return undefined;
}
