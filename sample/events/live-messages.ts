import type { MessageEvent } from '@nestjs/common';
import type { ExhibitorPage } from 'nestjs-exhibitor';
import { catchError, concat, map, of, scan, type Observable } from 'rxjs';
import type { Booth } from '../booth/booth.schema.js';
import { describeProblem } from '../pages/problem.js';

/** What the browser reads of a whole event: `page` for each page, then `complete`, or `failed`. */
export function liveMessages(pages: Observable<ExhibitorPage<Booth>>): Observable<MessageEvent> {
  const rows = pages.pipe(
    scan(
      (progress, { data, paginationMetadata }) => ({
        exhibitors: data,
        loaded: progress.loaded + data.length,
        total: paginationMetadata.totalCount,
      }),
      { exhibitors: [] as readonly Booth[], loaded: 0, total: 0 },
    ),
    map((data): MessageEvent => ({ type: 'page', data })),
  );
  return concat(rows, of<MessageEvent>({ type: 'complete', data: {} })).pipe(
    // The reply has begun: its status can no longer say what went wrong, a message can.
    catchError((error: unknown) => {
      const { title, text } = describeProblem(error);
      return of<MessageEvent>({ type: 'failed', data: { title, text } });
    }),
  );
}
