import {
  type AnyFault,
  rawBody,
  closeIdle,
  drip,
  redirect,
  reset,
  stall,
  truncate,
} from '../support/faults.js';

/** The three operations with a deadline, retries and limits. */
export const OPERATIONS = ['token', 'list', 'lookup'] as const;
export type FaultOperation = (typeof OPERATIONS)[number];

/** How a cell ends. */
export interface Ending {
  /** Code of the error; absent where the call succeeds. */
  code?: string;
  /** Minimum and maximum of the requests to the service. */
  requests: readonly [number, number];
  /** Minimum and maximum of `retryAfterMs` of the error, in ms. */
  retryAfterMs?: readonly [number, number];
  /** Minimum duration of the call in ms: `Retry-After` is obeyed. */
  atLeastMs?: number;
  /** Maximum duration of the call in ms: a wait that does not fit is not started. */
  atMostMs?: number;
}

/** A fault in the sandbox, or in the address of the service. */
export type Site =
  | { at: 'sandbox'; fault: () => AnyFault; times: number }
  | { at: 'address'; of: 'refused port' | 'silent port' | 'unknown name' };

export interface FaultRow {
  name: string;
  site: Site;
  ending: (operation: FaultOperation) => Ending;
  /** In ms. */
  deadline: number;
  /** In ms. */
  attemptTimeout: number;
  /** Calls in sequence; each must end as expected, and the requests of all are counted. */
  calls: number;
}

const ATTEMPTS = 3;
/** Of replies that come: far more time than a busy machine takes. In ms. */
const PATIENT = { deadline: 15_000, attemptTimeout: 10_000 };
/** Of replies that do not come. In ms. */
const HURRIED = { deadline: 1_500, attemptTimeout: 600 };
/** Of a reply that does not come, before one that does. In ms. */
const RECOVERING = { deadline: 10_000, attemptTimeout: 1_000 };
const RETRIED = [408, 429, 500, 502, 503, 504];

/** A request on a kept-alive connection that is reset is repeated once, beyond the attempts. */
const REPLAY = 1;

function row(
  name: string,
  fault: AnyFault | (() => AnyFault),
  times: number,
  ending: FaultRow['ending'],
  limits = PATIENT,
): FaultRow {
  const make = typeof fault === 'function' ? fault : () => fault;
  return {
    name,
    site: { at: 'sandbox', fault: make, times },
    ending,
    ...limits,
    calls: 1,
  };
}

function address(of: Extract<Site, { at: 'address' }>['of'], ending: FaultRow['ending']): FaultRow {
  return {
    name: of,
    site: { at: 'address', of },
    ending,
    ...HURRIED,
    calls: 1,
  };
}

/** The second request is answered. */
const recovers =
  (details: Partial<Ending> = {}) =>
  (): Ending => ({ requests: [2, 2 + REPLAY], ...details });

/** The unavailable token endpoint has its own code; all other codes are the same for all operations. */
const fails =
  (code: string, requests: Ending['requests'], details: Partial<Ending> = {}) =>
  (operation: FaultOperation): Ending => ({
    code: operation === 'token' && code === 'service_unavailable' ? 'token_unavailable' : code,
    requests,
    ...details,
  });

const unavailable = (most = ATTEMPTS) => fails('service_unavailable', [ATTEMPTS, most]);
const malformed = fails('malformed_response', [1, 1]);

/** The code of a 4xx depends on the operation. */
const refused =
  (codes: Partial<Record<FaultOperation, string | 'no error'>>, requests = 1) =>
  (operation: FaultOperation): Ending => {
    const code = codes[operation];
    const most: Ending['requests'] = operation === 'token' ? [1, 1] : [requests, requests];
    return { code: code === 'no error' ? undefined : code, requests: most };
  };

const status = (code: number, headers?: Record<string, string>): AnyFault => ({
  kind: 'status',
  status: code,
  headers,
});
const retryAfter = (code: number, value: string): AnyFault => status(code, { 'retry-after': value });
const dateIn = (ms: number): string => new Date(Date.now() + ms).toUTCString();

const statuses: FaultRow[] = RETRIED.flatMap((code) => [
  row(`${code} once`, status(code), 1, recovers()),
  row(
    `${code} for ever`,
    status(code),
    Infinity,
    code === 429 ? fails('rate_limited', [3, 3]) : unavailable(),
  ),
]);

const refusals: FaultRow[] = [
  row(
    '400',
    status(400),
    Infinity,
    refused({ token: 'token_rejected', list: 'request_rejected', lookup: 'request_rejected' }),
  ),
  row('401 once', status(401), 1, (operation) =>
    operation === 'token' ? { code: 'token_rejected', requests: [1, 1] } : { requests: [2, 2] },
  ),
  row(
    '401 for ever',
    status(401),
    Infinity,
    refused({ token: 'token_rejected', list: 'access_denied', lookup: 'access_denied' }, 2),
  ),
  row(
    '403',
    status(403),
    Infinity,
    refused({ token: 'token_rejected', list: 'access_denied', lookup: 'access_denied' }),
  ),
  row(
    '404',
    status(404),
    Infinity,
    refused({ token: 'token_rejected', list: 'not_found', lookup: 'no error' }),
  ),
];

const waits: FaultRow[] = [
  row('503 with Retry-After: 1', retryAfter(503, '1'), 1, recovers({ atLeastMs: 990 })),
  row('429 with Retry-After: 1', retryAfter(429, '1'), 1, recovers({ atLeastMs: 990 })),
  row(
    '429 with a Retry-After that does not fit',
    retryAfter(429, '120'),
    1,
    fails('rate_limited', [1, 1], { retryAfterMs: [120_000, 120_000], atMostMs: 1_000 }),
  ),
  row(
    '503 with a Retry-After that does not fit',
    retryAfter(503, '120'),
    1,
    fails('service_unavailable', [1, 1], { retryAfterMs: [120_000, 120_000], atMostMs: 1_000 }),
  ),
  row(
    '503 with Retry-After as a date',
    () => retryAfter(503, dateIn(2_000)),
    1,
    recovers({ atLeastMs: 700 }),
  ),
  row(
    '503 with Retry-After as a date that does not fit',
    () => retryAfter(503, dateIn(60_000)),
    1,
    fails('service_unavailable', [1, 1], { retryAfterMs: [50_000, 60_000], atMostMs: 1_000 }),
  ),
  row('503 with Retry-After in the past', () => retryAfter(503, dateIn(-60_000)), 1, recovers()),
  row('503 with a malformed Retry-After', retryAfter(503, 'in a minute'), 1, recovers()),
];

const cuts: FaultRow[] = (['before-headers', 'mid-headers', 'mid-body'] as const).flatMap((at) => [
  row(`reset ${at} once`, reset(at), 1, recovers()),
  row(`reset ${at} for ever`, reset(at), Infinity, unavailable(ATTEMPTS + REPLAY)),
]);

const stalls: FaultRow[] = (['before-headers', 'mid-body'] as const).flatMap((at) => [
  row(`stall ${at} once`, stall(at), 1, recovers({ atLeastMs: 990 }), RECOVERING),
  row(`stall ${at} for ever`, stall(at), Infinity, fails('deadline_exceeded', [2, 3]), HURRIED),
]);

const bodies: FaultRow[] = [
  row('drip once', drip(40), 1, recovers({ atLeastMs: 990 }), RECOVERING),
  row('drip for ever', drip(40), Infinity, fails('deadline_exceeded', [2, 3]), HURRIED),
  row('cut short of its length once', truncate(), 1, recovers()),
  row('cut short of its length for ever', truncate(), Infinity, unavailable()),
  row('truncated JSON', { kind: 'body', body: '{"data":[{"id":"1"},{"id"' }, 1, malformed),
  row(
    'HTML with 200',
    { kind: 'body', body: '<html>Sign in to the Wi-Fi</html>', contentType: 'text/html' },
    1,
    malformed,
  ),
  row('empty 200', { kind: 'body', body: '' }, 1, malformed),
  row('wrong content type', { kind: 'body', body: '[]', contentType: 'text/plain' }, 1, malformed),
  row('invalid UTF-8', rawBody(Buffer.from([0x5b, 0x22, 0xff, 0xfe, 0x22, 0x5d])), 1, malformed),
];

/** Every fault; redirects lead to `otherOrigin`. */
export function faultTable(otherOrigin: string): FaultRow[] {
  return [
    ...statuses,
    ...refusals,
    ...waits,
    ...cuts,
    ...stalls,
    ...bodies,
    row('redirect to another origin', redirect(otherOrigin), 1, malformed),
    row('redirect that keeps the method', redirect(otherOrigin, 307), 1, malformed),
    {
      ...row('server that closes each idle connection', closeIdle(), Infinity, () => ({
        requests: [5, 10],
      })),
      calls: 5,
    },
    address('refused port', fails('service_unavailable', [0, 0])),
    address('silent port', fails('deadline_exceeded', [2, 3])),
    address('unknown name', fails('service_unavailable', [0, 0])),
  ];
}
