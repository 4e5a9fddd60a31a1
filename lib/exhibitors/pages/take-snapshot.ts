import { PaginationDriftError } from '../../errors/pagination-drift.error.js';
import type { Clock } from '../../time/clock.js';
import type { ExhibitorSnapshot } from './exhibitor-page.interface.js';
import type { PageReader } from './page-reader.js';
import { pagesOf } from './read-pages.js';

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
