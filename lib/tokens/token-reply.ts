import { TokenRejectedError } from '../errors/token-rejected.error.js';
import { hideSecrets } from '../model/untrusted-text.js';
import { isRecord } from '../model/json-values.js';
import type { OAuthFailure } from '../config/problems/partner-problems.js';

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
 * @param secretsOf values of the request that must not be shown
 */
export function parseOAuthError(body: unknown, secretsOf: () => readonly string[]): OAuthFailure | undefined {
  if (!isRecord(body)) {
    return undefined;
  }
  const { error, error_description: description } = body;
  if (typeof error !== 'string' || error === '') {
    return undefined;
  }
  return presentableError(error, typeof description === 'string' ? description : undefined, secretsOf());
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

/** Errors that pass without a change of the request. RFC 6749 §4.1.2.1 has them; token endpoints use them as well. */
const TRANSIENT: ReadonlySet<string> = new Set(['temporarily_unavailable', 'server_error', 'slow_down']);

/** True for an OAuth error that may pass without a change of the request. */
export function isTransientError(oauthError: string): boolean {
  return TRANSIENT.has(oauthError);
}

/** Code for a 4xx without an OAuth error, perhaps of a proxy: `http_403`. */
export function unexplained(status: number): string {
  return `http_${status}`;
}

/** True where the same request will be refused again, for all we know: the provider explained why. */
export function isPermanent(error: unknown): boolean {
  return error instanceof TokenRejectedError && error.oauthError !== unexplained(error.status ?? 0);
}
