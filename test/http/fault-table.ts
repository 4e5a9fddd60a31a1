import { type AnyFault, drip, redirect, reset, stall, truncate } from '../support/faults.js';

export type FaultOperation = 'token' | 'list' | 'lookup';

type Range = readonly [least: number, most: number];

/** How a cell ends. Times are in ms. */
interface Ending {
  /** Code of the error; absent where the call succeeds. */
  code?: string | undefined;
  /** Requests to the service. */
  requests: Range;
  /** `retryAfterMs` of the error. */
  retryAfterMs?: Range;
  /** Duration of the call: `Retry-After` is obeyed, and a wait that does not fit is not started. */
  atLeastMs?: number;
  atMostMs?: number;
}

/** A fault of the sandbox for a number of requests, or the address of the service. */
export interface FaultRow {
  name: string;
  fault: AnyFault | (() => AnyFault) | 'refused port' | 'unknown name';
  times: number;
  ending: (operation: FaultOperation) => Ending;
  /** Of a call, in ms. */
  http: { deadline: number; attemptTimeout: number };
}

const ATTEMPTS = 3;
/** Of replies that come: far more time than a busy machine takes. In ms. */
const PATIENT = { deadline: 15_000, attemptTimeout: 10_000 };
/** Of replies that do not come. */
const HURRIED = { deadline: 1_500, attemptTimeout: 600 };
/** Of a reply that does not come, before one that does. */
const RECOVERING = { deadline: 10_000, attemptTimeout: 1_000 };

/** A request on a kept-alive connection that is reset is repeated once, beyond the attempts. */
const REPLAY = 1;

function row(
  name: string,
  fault: FaultRow['fault'],
  times: number,
  ending: FaultRow['ending'],
  http = PATIENT,
): FaultRow {
  return { name, fault, times, ending, http };
}

/** The second request is answered. */
const recovers =
  (atLeastMs = 0) =>
  (): Ending => ({ requests: [2, 2 + REPLAY], atLeastMs });

/** The unavailable token endpoint has its own code; all other codes are the same for all operations. */
const fails =
  (code: string, requests: Range, details: Partial<Ending> = {}) =>
  (operation: FaultOperation): Ending => ({
    code: operation === 'token' && code === 'service_unavailable' ? 'token_unavailable' : code,
    requests,
    ...details,
  });

const unavailable = (most = ATTEMPTS) => fails('service_unavailable', [ATTEMPTS, most]);
const malformed = fails('malformed_response', [1, 1]);
const late = fails('deadline_exceeded', [2, 3]);
/** The wait that the service asks for does not fit the deadline. */
const waitsTooLong = fails('rate_limited', [1, 1], { retryAfterMs: [120_000, 120_000], atMostMs: 1_000 });

/** The code of a 4xx depends on the operation. */
const refused =
  (list: string | undefined, lookup: string | undefined, most = 1) =>
  (operation: FaultOperation): Ending =>
    operation === 'token'
      ? { code: 'token_rejected', requests: [1, 1] }
      : { code: operation === 'list' ? list : lookup, requests: [most, most] };

const status = (code: number, retryAfter?: string): AnyFault => ({
  kind: 'status',
  status: code,
  ...(retryAfter === undefined ? {} : { headers: { 'retry-after': retryAfter } }),
});
const body = (text: string, contentType?: string): AnyFault => ({ kind: 'body', body: text, contentType });
const inTwoSeconds = (): AnyFault => status(503, new Date(Date.now() + 2_000).toUTCString());

/** Every fault; redirects lead to `otherOrigin`. */
export function faultTable(otherOrigin: string): FaultRow[] {
  return [
    ...[408, 429, 500, 502, 503, 504].flatMap((code) => [
      row(`${code} once`, status(code), 1, recovers()),
      row(
        `${code} for ever`,
        status(code),
        Infinity,
        code === 429 ? fails('rate_limited', [3, 3]) : unavailable(),
      ),
    ]),
    row('501', status(501), Infinity, fails('service_unavailable', [1, 1])),
    row('400', status(400), Infinity, refused('request_rejected', 'request_rejected')),
    row('401 once', status(401), 1, refused(undefined, undefined, 2)),
    row('401 for ever', status(401), Infinity, refused('access_denied', 'access_denied', 2)),
    row('403', status(403), Infinity, refused('access_denied', 'access_denied')),
    row('404', status(404), Infinity, refused('not_found', undefined)),
    row('503 with Retry-After: 1', status(503, '1'), 1, recovers(990)),
    row('429 with Retry-After: 1', status(429, '1'), 1, recovers(990)),
    row('429 with Retry-After: 120', status(429, '120'), 1, waitsTooLong),
    row('503 until a date', inTwoSeconds, 1, recovers(700)),
    ...(['before-headers', 'mid-headers', 'mid-body'] as const).flatMap((at) => [
      row(`reset ${at} once`, reset(at), 1, recovers()),
      row(`reset ${at} for ever`, reset(at), Infinity, unavailable(ATTEMPTS + REPLAY)),
    ]),
    ...(['before-headers', 'mid-body'] as const).flatMap((at) => [
      row(`stall ${at} once`, stall(at), 1, recovers(990), RECOVERING),
      row(`stall ${at} for ever`, stall(at), Infinity, late, HURRIED),
    ]),
    row('drip once', drip(40), 1, recovers(990), RECOVERING),
    row('drip for ever', drip(40), Infinity, late, HURRIED),
    row('cut short of its length once', truncate(), 1, recovers()),
    row('cut short of its length for ever', truncate(), Infinity, unavailable()),
    row('truncated JSON', body('{"data":[{"id":"1"},{"id"'), 1, malformed),
    row('HTML with 200', body('<html>Sign in to the Wi-Fi</html>', 'text/html'), 1, malformed),
    row('empty 200', body(''), 1, malformed),
    row('wrong content type', body('[]', 'text/plain'), 1, malformed),
    row('redirect to another origin', redirect(otherOrigin), 1, malformed),
    row('redirect that keeps the method', redirect(otherOrigin, 307), 1, malformed),
    row('refused port', 'refused port', 1, fails('service_unavailable', [0, 0]), HURRIED),
    row('unknown name', 'unknown name', 1, fails('service_unavailable', [0, 0]), HURRIED),
  ];
}
