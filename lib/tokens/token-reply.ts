import { TokenRejectedError } from '../errors/token-rejected.error.js';
import { hideSecrets } from '../model/untrusted-text.js';
import { isRecord } from '../model/json-values.js';
import type { OAuthFailure } from '../config/problems/token-endpoint-problems.js';

/** A reply of the token endpoint that is no OAuth error. */
export type TokenReply =
  | { kind: 'granted'; accessToken: string; scope: string | undefined; expiresIn: unknown }
  | { kind: 'malformed'; why: string };

/** Characters of an OAuth error code that are shown. */
const LONGEST_ERROR_CODE = 100;

/** Visible ASCII. Other characters could end the header in which the token is sent, or start another one. */
export const HEADER_SAFE = /^[\x21-\x7e]+$/;

export function parseTokenReply(body: unknown, requestedScope: string | null): TokenReply {
  if (!isRecord(body)) {
    return malformed('it is not an object');
  }
  const { access_token: accessToken, token_type: type, scope, expires_in: expiresIn } = body;
  if (typeof accessToken !== 'string' || accessToken === '') {
    return malformed('it has no access_token');
  }
  if (!HEADER_SAFE.test(accessToken)) {
    return malformed('its access_token does not fit a header');
  }
  // RFC 6749 §7.1: a token of a type the client does not know must not be used.
  if (typeof type !== 'string' || type.toLowerCase() !== 'bearer') {
    return malformed('its token_type is not Bearer');
  }
  const granted = typeof scope === 'string' ? scope : (requestedScope ?? undefined);
  return { kind: 'granted', accessToken, scope: granted, expiresIn };
}

/**
 * The OAuth error of a reply (RFC 6749 §5.2), with any status; `undefined` where it has none.
 *
 * @param secrets values of the request that must not be shown
 */
export function parseOAuthError(body: unknown, secrets: readonly string[]): OAuthFailure | undefined {
  if (!isRecord(body)) {
    return undefined;
  }
  const { error, error_description: description } = body;
  if (typeof error !== 'string' || error === '') {
    return undefined;
  }
  return presentableError(error, typeof description === 'string' ? description : undefined, secrets);
}

/** An OAuth error without the secrets of its request. */
export function presentableError(
  error: string,
  description: string | undefined,
  secrets: readonly string[],
): OAuthFailure {
  return {
    oauthError: hideSecrets(error, secrets, LONGEST_ERROR_CODE),
    oauthErrorDescription: description === undefined ? undefined : hideSecrets(description, secrets),
  };
}

function malformed(why: string): TokenReply {
  return { kind: 'malformed', why };
}

/** How long a permanent refusal is remembered, in ms. */
const REMEMBERED = 30_000;

/** Errors that pass without a change of the request. RFC 6749 §4.1.2.1 has them; token endpoints use them as well. */
const TRANSIENT: ReadonlySet<string> = new Set(['temporarily_unavailable', 'server_error', 'slow_down']);

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
  /** Not the error itself: its stack takes several kB of each tenant. */
  readonly error: Pick<TokenRejectedError, 'oauthError' | 'oauthErrorDescription' | 'tenant' | 'status'>;
}

/** A refusal with the time for which it is remembered: none where the provider did not explain it. */
export function remember(error: TokenRejectedError, now: number): TokenRefusal {
  const { oauthError, oauthErrorDescription, tenant, status } = error;
  const until = oauthError === unexplained(status ?? 0) ? now : now + REMEMBERED;
  return { until, error: { oauthError, oauthErrorDescription, tenant, status } };
}

/** The remembered refusal as an error of a call that sent nothing. */
export function repeated({ error }: TokenRefusal): TokenRejectedError {
  const { oauthError, oauthErrorDescription, tenant, status } = error;
  return new TokenRejectedError(oauthError, oauthErrorDescription, { tenant, status, attempts: 0 });
}
