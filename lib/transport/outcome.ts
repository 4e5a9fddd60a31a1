import type { ExhibitorErrorCode } from '../errors/error-codes.js';
import type { Operation } from './transport-request.interface.js';

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
   * documented form; `over`: the call ended (deadline, caller or closing module); `interceptor`: one of the host threw.
   */
  why: 'network' | 'timeout' | 'malformed' | 'over' | 'interceptor';
  /** Without any value of the request. */
  message: string;
  /** Of Node or undici, where no connection was made: `ENOTFOUND`. */
  errorCode?: string | undefined;
  /** A malformed reply is larger than `http.maxResponseBytes`. */
  isTooLarge?: boolean;
  status?: number | undefined;
  /** What an interceptor of the host threw. */
  cause?: unknown;
  /** The connection was closed or reset before there was a status line. */
  wasReset?: boolean;
  /**
   * Where the call ended or failed: in an interceptor of the host before the request was sent, while it was `connecting`, or in an
   * interceptor after it ended. Absent where it was on the wire.
   */
  phase?: 'request interceptor' | 'connecting' | 'response interceptor';
}

/** True where the call ended, or failed, in an interceptor of the host before the request was sent. */
export function wasNotSent(outcome: Outcome): boolean {
  return outcome.kind === 'failed' && outcome.phase === 'request interceptor';
}

/** True where the connection was reset before there was a reply: most likely it was closing already, and the request was not read. */
export function wasReset(outcome: Outcome): boolean {
  return outcome.kind === 'failed' && outcome.wasReset === true;
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

/** True where a status line came. A 5xx, a redirect and a body that is cut short are replies. */
export function hasReply({ status }: Outcome): boolean {
  return status !== undefined;
}

/**
 * True where a request ended without a reply although there was time for one: the service may be unreachable.
 *
 * - What happens in interceptors of the host, and aborts, say nothing about the service.
 * - A code that an attacker made up may cause late replies and resets: of a login's code, only failed connections count.
 *
 * @param hadTime the call ended by its deadline, and had about a whole `attemptTimeout` when the request left our queue
 */
export function isUnanswered(outcome: Outcome, operation: Operation, hadTime: boolean): boolean {
  if (outcome.kind === 'answered' || hasReply(outcome)) {
    return false;
  }
  const { why, phase } = outcome;
  if (operation === 'code') {
    return why === 'network' && phase === 'connecting';
  }
  return why === 'network' || why === 'timeout' || (why === 'over' && hadTime && phase === undefined);
}

/** What failed where there is no status, for diagnostics; `undefined` where the call ended. */
export function causeOf(outcome: Outcome): 'timeout' | 'network' | 'interceptor' | undefined {
  if (outcome.kind === 'answered' || hasReply(outcome)) {
    return undefined;
  }
  const { why } = outcome;
  return why === 'timeout' || why === 'network' || why === 'interceptor' ? why : undefined;
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
