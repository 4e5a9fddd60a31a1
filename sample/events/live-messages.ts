import type { MessageEvent } from '@nestjs/common';
import type { ExhibitorPage } from 'nestjs-exhibitor';
import { catchError, concat, map, of, scan, type Observable } from 'rxjs';
import type { Booth } from '../booth/booth.schema.js';

/** Data of a `page` message. */
interface LivePage {
  readonly exhibitors: readonly Booth[];
  /** Number of exhibitors sent so far, this page included. */
  readonly loaded: number;
  readonly total: number;
}

/** What the failure was, the log says. */
const FAILED = {
  title: 'The list is not complete',
  text: 'The exhibitor service did not answer as it should. Please try again.',
};

const NOTHING_LOADED: LivePage = { exhibitors: [], loaded: 0, total: 0 };

/** Converts the pages of an event to messages for the browser: `page` for each page, then `done` or `failed`. */
export function liveMessages(pages: Observable<ExhibitorPage<Booth>>): Observable<MessageEvent> {
  const messages = pages.pipe(
    scan(addPage, NOTHING_LOADED),
    map((data): MessageEvent => ({ type: 'page', data })),
  );
  return concat(messages, of<MessageEvent>({ type: 'done', data: {} })).pipe(
    // The status of the reply has been sent, so that an error can only be reported in a message.
    catchError(() => of<MessageEvent>({ type: 'failed', data: FAILED })),
  );
}

function addPage({ loaded }: LivePage, { data, paginationMetadata }: ExhibitorPage<Booth>): LivePage {
  return { exhibitors: data, loaded: loaded + data.length, total: paginationMetadata.totalCount };
}
