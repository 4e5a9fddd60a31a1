import { TokenRejectedError } from '../errors/token-rejected.error.js';

/** How long a permanent refusal is remembered, in ms, ± 10 % at random. */
const REMEMBERED = 30_000;

/** Errors that pass without a change of the request. RFC 6749 §4.1.2.1 has them; token endpoints use them as well. */
const TRANSIENT: ReadonlySet<string> = new Set(['temporarily_unavailable', 'server_error', 'slow_down']);

/** Statuses of an OAuth error: those of RFC 6749 §5.2, and two that some providers send instead. */
const EXPLAINED: ReadonlySet<number | undefined> = new Set([400, 401, 403, 200]);

/** True where the same request will be refused again. */
export function isPermanent(oauthError: string): boolean {
  return !TRANSIENT.has(oauthError);
}

/** Code for a 4xx without an OAuth error, perhaps of a proxy: `http_403`. */
export function unexplained(status: number): string {
  return `http_${status}`;
}

/** A permanent refusal of the token endpoint, answered from memory until `until` (ms of {@link Clock.now}). */
export interface TokenRefusal {
  readonly until: number;
  readonly error: TokenRejectedError;
}

/**
 * A refusal with the time for which it is remembered: none where the provider did not explain it.
 *
 * @param random from 0 to 1
 */
export function remember(error: TokenRejectedError, now: number, random: number): TokenRefusal {
  const { oauthError, status } = error;
  const isExplained = EXPLAINED.has(status) && oauthError !== unexplained(status ?? 0);
  return { until: isExplained ? now + REMEMBERED * (0.9 + 0.2 * random) : now, error };
}

/** The remembered refusal as an error of a call that sent nothing. */
export function repeated({ error }: TokenRefusal): TokenRejectedError {
  const { oauthError, oauthErrorDescription, tenant, status } = error;
  return new TokenRejectedError(oauthError, oauthErrorDescription, { tenant, status, attempts: 0 });
}
