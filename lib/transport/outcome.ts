import type { ExhibitorErrorCode } from '../errors/error-codes.js';

/** What one request on the wire came to. */
export type Outcome = Answered | Failed;

/** The service answered with a status; the body is read where it matters. */
export interface Answered {
  kind: 'answered';
  status: number;
  headers: Record<string, string | undefined>;
  body: unknown;
  receivedBytes: number;
}

/** There is no answer that could be used. */
export interface Failed {
  kind: 'failed';
  /**
   * `network`: refused, reset, cut short; `timeout`: the attempt's own time was up; `malformed`: complete but not what
   * the service promises; `over`: the deadline, the caller or the closing module ended it.
   */
  why: 'network' | 'timeout' | 'malformed' | 'over';
  /** In words, without any value of the request. */
  message: string;
  status?: number;
  /** The connection had served before and was reset before a byte of this reply: the request was most likely not read. */
  stale?: boolean;
  /** It was stopped before there was a connection to write it to. */
  unsent?: boolean;
}

/** True where the request is worth sending again. RFC 9110 §15: these say that another time may do. */
export function isTransient(outcome: Outcome): boolean {
  if (outcome.kind === 'failed') {
    return outcome.why === 'network' || outcome.why === 'timeout';
  }
  return RETRIED_STATUSES.has(outcome.status);
}

const RETRIED_STATUSES: ReadonlySet<number> = new Set([408, 429, 500, 502, 503, 504]);

/** True where the caller's room has to judge the reply: 2xx, and any 4xx that is not retried. */
export function isFinal(outcome: Outcome): outcome is Answered {
  return outcome.kind === 'answered' && codeOfStatus(outcome.status) === undefined;
}

/** What the circuit makes of a request; `undefined` where it says nothing of the service. */
export type Health = 'good' | 'bad' | undefined;

/**
 * Whether the service is to blame: for a 5xx, a broken connection and for being slow. A 4xx is about the request and
 * an abort about the caller.
 */
export function healthOf(outcome: Outcome, isTimeUp: boolean): Health {
  if (outcome.kind === 'answered') {
    return outcome.status >= 500 ? 'bad' : 'good';
  }
  if (outcome.why === 'malformed') {
    return 'good';
  }
  return outcome.why === 'over' && !isTimeUp ? undefined : 'bad';
}

/** The code the outcome has when nothing more is tried; `undefined` for one that is final. */
export function codeOf(outcome: Outcome): ExhibitorErrorCode | undefined {
  if (outcome.kind === 'answered') {
    return codeOfStatus(outcome.status);
  }
  return outcome.why === 'malformed' ? 'malformed_response' : 'service_unavailable';
}

function codeOfStatus(status: number): ExhibitorErrorCode | undefined {
  if (status === 429) {
    return 'rate_limited';
  }
  return status === 408 || status >= 500 ? 'service_unavailable' : undefined;
}

/** The failure in words. */
export function describeOutcome(outcome: Outcome): string {
  if (outcome.kind === 'failed') {
    return outcome.message;
  }
  return outcome.status === 429
    ? 'the service limits our requests'
    : `the service answered ${outcome.status}`;
}
