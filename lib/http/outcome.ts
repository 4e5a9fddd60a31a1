import type { Blame } from '../config/problems/partner-problems.js';

export type Outcome = Answered | Failed;

export interface Answered {
  kind: 'answered';
  /** `undefined` for replies that the calling room judges: 2xx, and any 4xx that is not retried. */
  code: 'rate_limited' | 'service_unavailable' | undefined;
  status: number;
  headers: Record<string, string | undefined>;
  /** Parsed JSON; `undefined` where there is none. */
  body: unknown;
  /** {@link Clock.now} when the request was sent. */
  sentAt: number;
}

export interface Failed {
  kind: 'failed';
  /** Without any value of the request. */
  message: string;
  code: 'service_unavailable' | 'malformed_response';
  blame: Blame;
  /** Where the head of a reply came. */
  status?: number | undefined;
  /** Whether sending it again may help: `at once`, on a new connection, where it was most likely not read; or `later`. */
  repeat?: 'at once' | 'later' | undefined;
  /**
   * Why there is no reply, where the partner is why: no connection was made, or TLS was not done on it; or none came, although there
   * was time. `undefined` where that is not known: the call ended, this process was too busy or had no file left, an interceptor threw.
   */
  noReply?: 'unreached' | 'unanswered' | undefined;
  /** {@link Clock.now} when the request was sent; `undefined` where it was not, or where an interceptor of the host was the last. */
  sentAt?: number | undefined;
  /** For diagnostics; `undefined` where the call ended, and where a whole reply cannot be used. */
  cause?: 'timeout' | 'network' | 'interceptor' | undefined;
  /** What operators read of a failed connection: the code of Node or undici (`ENOTFOUND`), or words. */
  why?: string | undefined;
  /** The reply is larger than `http.maxResponseBytes`. */
  isTooLarge?: boolean;
  /** Where the `cause` is `interceptor`: what it threw, and what of that its caller may get. */
  thrown?: unknown;
  passedOn?: unknown;
}

/** @param facts by default, the code is `service_unavailable`, and it helps nothing to send the request again */
export function failed(
  message: string,
  facts: Pick<Failed, 'blame'> & Omit<Partial<Failed>, 'kind' | 'message'>,
): Failed {
  return { kind: 'failed', message, code: 'service_unavailable', ...facts };
}

const RETRIED_STATUSES: ReadonlySet<number> = new Set([408, 429, 500, 502, 503, 504]);

/** True where sending the request again may help (RFC 9110 §15). */
export function mayRepeat(outcome: Outcome): boolean {
  return outcome.kind === 'failed' ? outcome.repeat !== undefined : RETRIED_STATUSES.has(outcome.status);
}

/** True where no partner is why it failed, but this process, its interceptors or its machine. */
export function isOwnFailure(outcome: Outcome): boolean {
  return outcome.kind === 'failed' && outcome.blame === 'us';
}

/** How a request failed, in the words of an operator's line; from a fixed set. */
export function wordsOf(outcome: Outcome): string {
  if (outcome.kind === 'answered') {
    return `status ${outcome.status}`;
  }
  if (outcome.code === 'malformed_response') {
    return 'unusable reply';
  }
  if (outcome.status !== undefined) {
    return 'no whole reply';
  }
  return outcome.noReply === 'unreached' ? 'no connection' : 'no reply';
}

export function describeOutcome(outcome: Outcome): string {
  if (outcome.kind === 'failed') {
    return outcome.message;
  }
  return outcome.status === 429
    ? 'the service limits our requests'
    : `the service answered ${outcome.status}`;
}
