import { clearCookie, heldCookies, type CookieAttributes, type ReceivedCookie } from './cookies.js';
import type { HttpContext } from './http-context.js';

/** Name of the identity cookie. */
export const IDENTITY_COOKIE = 'exhibitor-identity';

/** Name of the cookie that extends the identity. */
export const EXTENSION_COOKIE = 'exhibitor-identity-extension';

/** Name of the cookie with the ID token, for the logout at the provider. */
export const ID_TOKEN_COOKIE = 'exhibitor-id-token';

/** Start of the name of a pending login; the time of its start in base 36 follows. */
export const LOGIN_COOKIE = 'exhibitor-login-';

/** Pending logins per browser. */
const MAX_PENDING = 6;

/** Pending logins of a browser stay below this number of bytes, as they are sent. */
const PENDING_BYTES = 6_000;

/** All cookies of the module together stay below it: proxies accept header lines of 8 kB, and the host has cookies of its own. */
const ALL_BYTES = 7_500;

/**
 * Removes the oldest pending logins until the cookies of the module are within their limits, and the ID token where that is
 * not enough: a logout at the provider works without it. To be called after a cookie was set.
 *
 * @param sameSite of that cookie: in its context, browsers accept the removal of others with the same value
 * @param keep name of the pending login that this reply sets, or `newest`: it is kept
 */
export function trimCookies(http: HttpContext, sameSite: CookieAttributes['sameSite'], keep?: string): void {
  const remove = ({ name, secure }: ReceivedCookie): void => clearCookie(http, name, { secure, sameSite });
  const pending = heldCookies(http, LOGIN_COOKIE).toSorted((a, b) => startTimeOf(b) - startTimeOf(a));
  const kept = keep === 'newest' ? pending.slice(0, 1) : pending.filter(({ name }) => name === keep);
  let bytes = ALL_BYTES - bytesOf(heldNamed(http, IDENTITY_COOKIE, EXTENSION_COOKIE)) - bytesOf(kept);
  const idTokens = heldNamed(http, ID_TOKEN_COOKIE);
  if (bytesOf(idTokens) < bytes) {
    bytes -= bytesOf(idTokens);
  } else {
    idTokens.forEach(remove);
  }
  bytes = Math.min(bytes, PENDING_BYTES - bytesOf(kept));
  let count = MAX_PENDING - kept.length;
  for (const cookie of pending.filter((one) => !kept.includes(one))) {
    bytes -= bytesOf([cookie]);
    count -= 1;
    if (bytes <= 0 || count < 0) {
      remove(cookie);
    }
  }
}

function heldNamed(http: HttpContext, ...names: string[]): ReceivedCookie[] {
  return heldCookies(http, '').filter(({ name }) => names.includes(name));
}

/** Size of cookies in a request: `name=value; `. */
function bytesOf(cookies: readonly ReceivedCookie[]): number {
  return cookies.reduce((sum, { sent, value }) => sum + Buffer.byteLength(sent) + value.length + 3, 0);
}

function startTimeOf({ name }: ReceivedCookie): number {
  const startedAt = Number.parseInt(name.slice(LOGIN_COOKIE.length), 36);
  return Number.isNaN(startedAt) ? 0 : startedAt;
}
