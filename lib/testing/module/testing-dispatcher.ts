import { Dispatcher } from 'undici';
import type { TestingRecords } from './testing-records.js';

/** The exhibitors as they are sent: by number, see {@link TestingRecords}. */
export type SentExhibitors = Pick<TestingRecords<unknown>, 'ofEvent' | 'ofContact'>;

/** Largest page of the service. */
const MAX_ITEMS = 50;

/** A reply of the service. */
interface Reply {
  status: number;
  body: unknown;
}

/**
 * Answers requests in memory, as undici would answer those on the wire. A record is sent as its number, see
 * {@link TestingRecords}.
 */
export class TestingDispatcher extends Dispatcher {
  readonly #records: SentExhibitors;

  constructor(records: SentExhibitors) {
    super();
    this.#records = records;
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const controller = new TestingController();
    handler.onRequestStart?.(controller, undefined);
    const { status, body } = replyTo(options.path, this.#records);
    const headers = { 'content-type': 'application/json' };
    queueMicrotask(() => {
      if (controller.aborted) {
        return;
      }
      handler.onResponseStart?.(controller, status, headers);
      handler.onResponseData?.(controller, Buffer.from(JSON.stringify(body)));
      handler.onResponseEnd?.(controller, {});
    });
    return true;
  }
}

function replyTo(target: string, records: SentExhibitors): Reply {
  const { pathname, searchParams } = new URL(`https://service.test${target}`);
  // /api/v1/exhibitor/event/{eventId}, and /contactEmail/{contactEmail} behind it
  const [eventId, , email] = pathname.split('/').slice(5).map(decodeURIComponent);
  if (eventId === undefined) {
    return pathname === '/connect/token'
      ? { status: 200, body: { access_token: 'test-token', token_type: 'Bearer', expires_in: 3600 } }
      : { status: 404, body: {} };
  }
  if (email !== undefined) {
    return { status: 200, body: records.ofContact(eventId, email).map(toWire) };
  }
  const numbers = records.ofEvent(eventId);
  if (numbers === undefined) {
    return { status: 404, body: { error: 'event_not_found' } };
  }
  const page = pageOf(numbers, Number(searchParams.get('Page')), Number(searchParams.get('ItemsPerPage')));
  return { status: 200, body: page };
}

function pageOf(numbers: readonly number[], currentPage: number, wanted: number): object {
  const itemsPerPage = Math.min(wanted, MAX_ITEMS);
  const totalPages = Math.ceil(numbers.length / itemsPerPage);
  const paginationMetadata = {
    currentPage,
    totalCount: numbers.length,
    totalPages,
    hasPreviousPage: currentPage > 1 && totalPages > 0,
    hasNextPage: currentPage < totalPages,
    itemsPerPage,
  };
  const data = numbers.slice((currentPage - 1) * itemsPerPage, currentPage * itemsPerPage).map(toWire);
  return { paginationMetadata, data };
}

function toWire(number: number): { number: number } {
  return { number };
}

/** Nothing is paused: the whole reply is there at once. */
class TestingController implements Dispatcher.DispatchController {
  aborted = false;
  readonly paused = false;
  reason: Error | null = null;
  readonly rawHeaders = null;
  readonly rawTrailers = null;

  abort(reason: Error): void {
    this.aborted = true;
    this.reason = reason;
  }

  pause(): void {}

  resume(): void {}
}
