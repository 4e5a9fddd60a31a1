import { PaginationDriftError } from '../../errors/pagination-drift.error.js';
import type { ExhibitorSnapshot } from './exhibitor-page.interface.js';
import type { PageReader } from './page-reader.js';
import { pagesOf } from './read-pages.js';

/** Source of a snapshot. */
export interface SnapshotSource<T> {
  /** Opens a reader that fails on drift. */
  open(): Promise<PageReader<T>>;
  /** Milliseconds since 1970. */
  epochMs(): number;
}

/**
 * Reads an event until it does not change during a reading, at most `attempts` times.
 *
 * @throws {PaginationDriftError} the last one, where the event changed every time
 */
export async function takeSnapshot<T>(
  source: SnapshotSource<T>,
  attempts: number,
  signal: AbortSignal,
): Promise<ExhibitorSnapshot<T>> {
  for (let restarts = 0; ; restarts += 1) {
    try {
      const takenAt = new Date(source.epochMs());
      return { ...(await readAll(await source.open(), signal)), takenAt, restarts };
    } catch (error) {
      if (!(error instanceof PaginationDriftError) || restarts + 1 >= attempts) {
        throw error;
      }
    }
  }
}

async function readAll<T>(
  reader: PageReader<T>,
  signal: AbortSignal,
): Promise<Pick<ExhibitorSnapshot<T>, 'exhibitors' | 'totalCount'>> {
  const exhibitors: T[] = [];
  let totalCount = 0;
  for await (const { paginationMetadata, data } of pagesOf(reader, signal)) {
    totalCount = paginationMetadata.totalCount;
    for (const exhibitor of data) {
      exhibitors.push(exhibitor);
    }
  }
  return { exhibitors, totalCount };
}
