import {
  clearCookies,
  EXTENSION_COOKIE,
  heldCookies,
  heldNamed,
  ID_TOKEN_COOKIE,
  IDENTITY_COOKIE,
  LOGIN_COOKIE,
  type CookieAttributes,
  type ReceivedCookie,
} from './cookies.js';
import type { HttpContext } from './http-context.js';

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
 * @param isKept true for a pending login that is kept in any case; the newest one has place 0
 */
export function trimCookies(
  http: HttpContext,
  sameSite: CookieAttributes['sameSite'],
  isKept: (login: ReceivedCookie, place: number) => boolean,
): void {
  const pending = heldCookies(http, LOGIN_COOKIE).toSorted((a, b) => startTimeOf(b) - startTimeOf(a));
  const kept = pending.filter(isKept);
  let bytes = ALL_BYTES - bytesOf(heldNamed(http, IDENTITY_COOKIE, EXTENSION_COOKIE)) - bytesOf(kept);
  const idTokens = heldNamed(http, ID_TOKEN_COOKIE);
  if (bytesOf(idTokens) < bytes) {
    bytes -= bytesOf(idTokens);
  } else {
    clearCookies(http, idTokens, sameSite);
  }
  bytes = Math.min(bytes, PENDING_BYTES - bytesOf(kept));
  let count = MAX_PENDING - kept.length;
  for (const cookie of pending.filter((one) => !kept.includes(one))) {
    bytes -= bytesOf([cookie]);
    count -= 1;
    if (bytes <= 0 || count < 0) {
      clearCookies(http, [cookie], sameSite);
    }
  }
}

/** Size of cookies in a request: `name=value; `. */
function bytesOf(cookies: readonly ReceivedCookie[]): number {
  return cookies.reduce((sum, { sent, value }) => sum + Buffer.byteLength(sent) + value.length + 3, 0);
}

function startTimeOf({ name }: ReceivedCookie): number {
  const startedAt = Number.parseInt(name.slice(LOGIN_COOKIE.length), 36);
  return Number.isNaN(startedAt) ? 0 : startedAt;
}
