import type { Observable, Subscriber } from 'rxjs';
import { PaginationDriftError } from '../../errors/pagination-drift.error.js';
import type { Clock } from '../../call/clock.js';
import type { Call } from '../../call/call.js';
import { fromCall } from '../call-runner.service.js';
import type { ExhibitorPage, ExhibitorSnapshot } from './exhibitor-page.interface.js';
import type { PageReader } from './page-reader.js';

/** A reading of an event that has begun. */
export interface Reading<T> {
  /** Its end is that of the reading, and aborts what is under way. */
  readonly call: Call;
  open(): Promise<PageReader<T>>;
}

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

/**
 * Iterates over what `itemsOf` makes of each page, one after the other. While a page is consumed, at most `prefetch` further pages
 * are fetched.
 *
 * @param begin checks the options, by the first step, whose promise a wrong one rejects
 */
export function iterateOver<T, R>(
  begin: () => Reading<T>,
  itemsOf: (page: ExhibitorPage<T>) => readonly R[],
): AsyncIterableIterator<R> {
  let reading: Reading<T> | undefined;
  let hasLeft = false;
  async function* read(): AsyncGenerator<R, undefined> {
    reading = begin();
    try {
      const reader = await reading.open();
      for await (const page of pagesOf(reader)) {
        reader.fetchAhead();
        // `yield*` would take three times as long for each item.
        for (const item of itemsOf(page)) {
          yield item;
        }
      }
    } catch (error) {
      // A consumer that has left is not told that its requests were aborted.
      if (!hasLeft) {
        throw error;
      }
    } finally {
      reading.call.abort();
    }
    return undefined;
  }
  const items = read();
  const end = items.return.bind(items);
  // A generator finishes its current step before it returns: the end of the call ends that step.
  items.return = (value) => {
    hasLeft = true;
    reading?.call.abort();
    return end(value);
  };
  return items;
}

/** As {@link iterateOver}, as a cold Observable. The reading ends when the consumer unsubscribes. */
export function observe<T, R>(
  begin: () => Reading<T>,
  itemsOf: (page: ExhibitorPage<T>) => readonly R[],
): Observable<R> {
  const start = (): AsyncIterableIterator<ExhibitorPage<T>> => iterateOver(begin, (page) => [page]);
  return fromCall(start, async (pages, subscriber: Subscriber<R>) => {
    subscriber.add(() => void pages.return?.());
    for await (const page of pages) {
      // `concatMap` would take twice as long for each item.
      for (const item of itemsOf(page)) {
        subscriber.next(item);
      }
    }
  });
}

/**
 * Reads an event until it does not change during a reading, at most `attempts` times.
 *
 * @param open opens a reader that fails on drift, for each reading
 * @throws {PaginationDriftError} the last one, where the event changed every time
 */
export async function takeSnapshot<T>(
  open: () => Promise<PageReader<T>>,
  attempts: number,
  clock: Clock,
): Promise<ExhibitorSnapshot<T>> {
  for (let restarts = 0; ; restarts += 1) {
    try {
      const takenAt = new Date(clock.epochMs());
      const exhibitors: T[] = [];
      let totalCount = 0;
      for await (const { paginationMetadata, data } of pagesOf(await open())) {
        totalCount = paginationMetadata.totalCount;
        for (const exhibitor of data) {
          exhibitors.push(exhibitor);
        }
      }
      return { exhibitors, totalCount, takenAt, restarts };
    } catch (error) {
      if (!(error instanceof PaginationDriftError) || restarts + 1 >= attempts) {
        throw error;
      }
    }
  }
}
