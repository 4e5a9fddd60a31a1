import { TokenRejectedError } from '../errors/token-rejected.error.js';

/** How long a refusal for good is remembered, in ms; a tenth more or less is left to chance. */
const REMEMBERED = 30_000;

/** RFC 6749 §4.1.2.1 has these for the authorization endpoint; token endpoints use them, too. They pass by themselves. */
const PASSING: ReadonlySet<string> = new Set(['temporarily_unavailable', 'server_error', 'slow_down']);

/** True where asking again with the same request will not help. */
export function isPermanent(oauthError: string): boolean {
  return !PASSING.has(oauthError);
}

/** A 4xx without an OAuth error, of a proxy perhaps: `http_403`. It says too little of the credentials to go by. */
export function unexplained(status: number): string {
  return `http_${status}`;
}

/** The statuses an OAuth error comes with: RFC 6749 §5.2, and the two that providers get wrong. */
const EXPLAINED: ReadonlySet<number | undefined> = new Set([400, 401, 403, 200]);

/** True where the provider itself said why, in the way it says it for good. */
export function isRemembered({ oauthError, status }: TokenRejectedError): boolean {
  return EXPLAINED.has(status) && oauthError !== unexplained(status ?? 0);
}

/** A refusal for good, answered from memory until its time is up. */
export interface Refusal {
  readonly until: number;
  readonly error: TokenRejectedError;
}

/** Remembers a refusal from now on. @param chance from 0 to 1 */
export function remember(error: TokenRejectedError, now: number, chance: number): Refusal {
  return { until: now + REMEMBERED * (0.9 + 0.2 * chance), error };
}

/** The refusal as an error of a call for which nothing was sent. */
export function repeated({ error }: Refusal): TokenRejectedError {
  const { oauthError, oauthErrorDescription, tenant, status } = error;
  return new TokenRejectedError(oauthError, oauthErrorDescription, { tenant, status, attempts: 0 });
}
