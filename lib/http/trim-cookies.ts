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
 * @param keep name of the pending login that this reply sets, or `newest`: it is kept
 */
export function trimCookies(http: HttpContext, sameSite: CookieAttributes['sameSite'], keep?: string): void {
  const identities = heldCookies(http, IDENTITY_COOKIE).filter(({ name }) =>
    [IDENTITY_COOKIE, EXTENSION_COOKIE].includes(name),
  );
  const pending = heldCookies(http, LOGIN_COOKIE).toSorted((a, b) => startTimeOf(b) - startTimeOf(a));
  const kept = keep === 'newest' ? pending.slice(0, 1) : pending.filter(({ name }) => name === keep);
  const others = pending.filter((cookie) => !kept.includes(cookie));
  const rest = ALL_BYTES - bytesOf(identities);
  const idTokens = heldCookies(http, ID_TOKEN_COOKIE).filter(({ name }) => name === ID_TOKEN_COOKIE);
  const keepsIdToken = bytesOf(idTokens) + bytesOf(kept) < rest;
  if (!keepsIdToken) {
    for (const { secure } of idTokens) {
      clearCookie(http, ID_TOKEN_COOKIE, { secure, sameSite: secure ? sameSite : 'lax' });
    }
  }
  const bytes = Math.min(PENDING_BYTES, rest - (keepsIdToken ? bytesOf(idTokens) : 0)) - bytesOf(kept);
  const sizes = others.map((cookie) => bytesOf([cookie]));
  for (const { name, secure } of others.slice(countWithin(sizes, bytes, MAX_PENDING - kept.length))) {
    clearCookie(http, name, { secure, sameSite: secure || sameSite === 'none' ? sameSite : 'lax' });
  }
}

/** Number of cookies, from the first, that are together smaller than `bytes`, and `most` at most. */
function countWithin(sizes: readonly number[], bytes: number, most: number): number {
  let sum = 0;
  const beyond = sizes.findIndex((size, index) => {
    sum += size;
    return index >= most || sum >= bytes;
  });
  return beyond === -1 ? sizes.length : beyond;
}

/** Size of cookies in a request: `name=value; `. */
function bytesOf(cookies: readonly ReceivedCookie[]): number {
  return cookies.reduce((sum, { sent, value }) => sum + Buffer.byteLength(sent) + value.length + 3, 0);
}

function startTimeOf({ name }: ReceivedCookie): number {
  const startedAt = Number.parseInt(name.slice(LOGIN_COOKIE.length), 36);
  return Number.isNaN(startedAt) ? 0 : startedAt;
}
