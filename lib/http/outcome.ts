import type { ExhibitorErrorCode } from '../errors/error-codes.js';
import type { Operation } from './transport-request.interface.js';

export type Outcome = Answered | Failed;

export interface Answered {
  kind: 'answered';
  status: number;
  headers: Record<string, string | undefined>;
  /** Parsed JSON; `undefined` where there is none. */
  body: unknown;
  /** {@link Clock.now} when the request was sent. */
  sentAt: number;
}

export interface Failed {
  kind: 'failed';
  why: Why;
  /** Without any value of the request. */
  message: string;
  /** Where the head of a reply came. */
  status?: number | undefined;
  /** {@link Clock.now} when the request was sent; `undefined` where it was not, or where an interceptor of the host was the last. */
  sentAt?: number | undefined;
  /** Why a service is `unreached`, by the code of Node or undici: `ENOTFOUND`. */
  errorCode?: string | undefined;
  /** What is wrong there, if it is not the address: this process or machine, a proxy of `http.dispatcher`, or `either` of the two. */
  suspect?: 'process' | 'dispatcher' | 'either' | undefined;
  /** A `malformed` reply is larger than `http.maxResponseBytes`. */
  isTooLarge?: boolean;
  /** What an interceptor of the host threw; as `cause` where it may be passed on. */
  thrown?: unknown;
  cause?: unknown;
}

/**
 * Why there is no usable reply.
 *
 * - `unreached`: no connection was made, or TLS was not done on it. No status.
 * - `reset`: the connection was closed before the head of a reply: most likely it was closing already, and the request was not
 *   read. No status.
 * - `cut`: the reply was cut short, or its head is no HTTP, which leaves it without a status.
 * - `timeout`: the attempt took too long. With the status where the head of the reply had come.
 * - `malformed`: the reply is complete, but not the documented form. Always with its status.
 * - `over`: the deadline passed, the caller left, or the module closed. With a status as `timeout`.
 * - `interceptor`: one of the host threw. With the status of the reply before it, if there was one.
 */
type Why = 'unreached' | 'reset' | 'cut' | 'timeout' | 'malformed' | 'over' | 'interceptor';

/** Failures of the network. */
const NETWORK: ReadonlySet<Why> = new Set(['unreached', 'reset', 'cut']);

const RETRIED_STATUSES: ReadonlySet<number> = new Set([408, 429, 500, 502, 503, 504]);

/** True for a failure of this kind. */
export function failedAs(why: Why, outcome: Outcome): outcome is Failed {
  return outcome.kind === 'failed' && outcome.why === why;
}

/** True where sending the request again may help (RFC 9110 §15). */
export function isTransient(outcome: Outcome): boolean {
  if (outcome.kind === 'failed') {
    return outcome.why === 'timeout' || NETWORK.has(outcome.why);
  }
  return RETRIED_STATUSES.has(outcome.status);
}

/** True for replies that the calling room judges: 2xx, and any 4xx that is not retried. */
export function isFinal(outcome: Outcome): outcome is Answered {
  return outcome.kind === 'answered' && codeOfStatus(outcome.status) === undefined;
}

/**
 * True where a request that was sent ended without a reply although there was time for one: the service may be unreachable. A
 * 5xx, a redirect and a body that is cut short are replies.
 *
 * @param hadTime of a call that is `over`: its time was up, about a whole `attemptTimeout` after it had sent the request
 */
export function isUnanswered(outcome: Outcome, operation: Operation, hadTime: boolean): boolean {
  if (outcome.kind === 'answered' || outcome.status !== undefined || outcome.suspect === 'process') {
    return false;
  }
  const { why } = outcome;
  // A code that an attacker made up may cause late replies and resets.
  if (operation === 'code') {
    return why === 'unreached';
  }
  return isTransient(outcome) || (why === 'over' && hadTime);
}

/** What failed where there is no status, for diagnostics; `undefined` where the call ended. */
export function causeOf(outcome: Outcome): 'timeout' | 'network' | 'interceptor' | undefined {
  if (outcome.kind === 'answered' || outcome.status !== undefined) {
    return undefined;
  }
  const { why } = outcome;
  if (NETWORK.has(why)) {
    return 'network';
  }
  return why === 'timeout' || why === 'interceptor' ? why : undefined;
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

/** How a request failed, in the words of an operator's line; from a fixed set. */
export function wordsOf(outcome: Outcome): string {
  if (outcome.kind === 'answered') {
    return `status ${outcome.status}`;
  }
  if (outcome.why === 'malformed') {
    return 'unusable reply';
  }
  if (outcome.status !== undefined) {
    return 'no whole reply';
  }
  return outcome.why === 'unreached' ? 'no connection' : 'no reply';
}

export function describeOutcome(outcome: Outcome): string {
  if (outcome.kind === 'failed') {
    return outcome.message;
  }
  return outcome.status === 429
    ? 'the service limits our requests'
    : `the service answered ${outcome.status}`;
}
