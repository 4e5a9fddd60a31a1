import type { ExhibitorErrorCode } from '../errors/error-codes.js';

export type Outcome = Answered | Failed;

export interface Answered {
  kind: 'answered';
  status: number;
  headers: Record<string, string | undefined>;
  /** Parsed JSON; `undefined` where there is none. */
  body: unknown;
}

export interface Failed {
  kind: 'failed';
  /**
   * `network`: refused, reset or cut short; `timeout`: the attempt took too long; `malformed`: complete, but not the
   * documented form; `memory`: given up for the memory of other replies; `over`: the call ended (deadline, caller or closing
   * module); `interceptor`: one of the host threw.
   */
  why: 'network' | 'timeout' | 'malformed' | 'memory' | 'over' | 'interceptor';
  /** Without any value of the request. */
  message: string;
  /** Of Node or undici, where no connection was made: `ENOTFOUND`. */
  errorCode?: string | undefined;
  /** A malformed reply is larger than `http.maxResponseBytes`. */
  isTooLarge?: boolean;
  status?: number | undefined;
  /** What an interceptor of the host threw. */
  cause?: unknown;
  /** See {@link isStale}. */
  stale?: boolean;
  /** Where the request was, if that matters. From `sent` on, it had a connection. */
  phase?: 'request interceptor' | 'connecting' | 'sent' | 'response interceptor';
}

/** True where the call ended before there was a connection, or an interceptor of the host failed before. */
export function wasNotSent(outcome: Outcome): boolean {
  return (
    outcome.kind === 'failed' &&
    (outcome.why === 'over' || outcome.why === 'interceptor') &&
    (outcome.phase === 'request interceptor' || outcome.phase === 'connecting')
  );
}

/** True where a reused connection was reset before there was a reply: most likely the request was not read. */
export function isStale(outcome: Outcome): boolean {
  return outcome.kind === 'failed' && outcome.stale === true;
}

/** True where sending the request again may help (RFC 9110 §15). */
export function isTransient(outcome: Outcome): boolean {
  if (outcome.kind === 'failed') {
    return outcome.why === 'network' || outcome.why === 'timeout';
  }
  return RETRIED_STATUSES.has(outcome.status);
}

const RETRIED_STATUSES: ReadonlySet<number> = new Set([408, 429, 500, 502, 503, 504]);

/** True for replies that the calling room judges: 2xx, and any 4xx that is not retried. */
export function isFinal(outcome: Outcome): outcome is Answered {
  return outcome.kind === 'answered' && codeOfStatus(outcome.status) === undefined;
}

/** Meaning of a result for the circuit; `undefined` where it says nothing about the service. */
export type Health = 'good' | 'bad' | undefined;

/** The result of a request, for the limits. */
export interface RequestResult {
  health: Health;
  outcome: Outcome;
  /** E-mail address that the request was about. */
  contact: string | undefined;
}

/**
 * `bad` for a 5xx, a network failure and a timeout. A 4xx is caused by the request, an abort by the caller; a stale connection
 * says nothing about the service.
 *
 * @param isTimeUp the call ended because its deadline passed
 */
export function healthOf(outcome: Outcome, isTimeUp: boolean): Health {
  if (outcome.kind === 'answered') {
    return outcome.status >= 500 ? 'bad' : 'good';
  }
  if (outcome.why === 'malformed') {
    return 'good';
  }
  const { why, phase } = outcome;
  const isOfHost =
    why === 'interceptor' || phase === 'request interceptor' || phase === 'response interceptor';
  return isOfHost || isStale(outcome) || why === 'memory' || (why === 'over' && !isTimeUp)
    ? undefined
    : 'bad';
}

/** Error code of the outcome when there is no further attempt; `undefined` where it is final. */
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

export function describeOutcome(outcome: Outcome): string {
  if (outcome.kind === 'failed') {
    return outcome.message;
  }
  return outcome.status === 429
    ? 'the service limits our requests'
    : `the service answered ${outcome.status}`;
}
