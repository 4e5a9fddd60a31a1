import { stringifySetCookie, type SetCookie } from 'cookie';
import type { HttpContext } from './http-context.js';

/** Browsers accept `__Host-` cookies only with Secure, `Path=/` and no Domain (RFC 6265bis §4.1.3.2). */
const HOST_PREFIX = '__Host-';

/** Characters that number the cookies of pending logins. */
export const LOGIN_DIGITS = Array.from('0123456789abcdef');

/**
 * Largest sum of our cookies in a request, in bytes: proxies accept header lines of 8 kB, and the host has cookies of its own.
 */
const MAX_BYTES = 7_000;

/** The names of our cookies, without `__Host-`. They are fixed: no other cookie of a request is read. */
export interface CookieNames {
  identity: string;
  /** The ID token, for the logout at the provider. */
  idToken: string;
  /** The exhibitors that the user has chosen. */
  selection: string;
  /** Pending logins, numbered by {@link LOGIN_DIGITS}. */
  logins: readonly string[];
}

/** @param name how all of them begin, see the option `cookies.name` */
export function cookieNames(name: string): CookieNames {
  return {
    identity: `${name}-identity`,
    idToken: `${name}-id-token`,
    selection: `${name}-selection`,
    logins: LOGIN_DIGITS.map((digit) => loginCookieName(name, digit)),
  };
}

export function loginCookieName(name: string, digit: string): string {
  return `${name}-login-${digit}`;
}

/**
 * Attributes that differ between cookies. All are `HttpOnly` with `Path=/`. Those of an https host are `Secure` and have the
 * `__Host-` prefix. `SameSite=None` is always `Secure`, since browsers ignore it otherwise: on http it is for loopback hosts,
 * where Chromium and Firefox keep and send such cookies.
 */
export interface CookieAttributes {
  /** True for a host with https. */
  secure: boolean;
  sameSite: 'lax' | 'strict' | 'none';
}

/** True where the callback address, and so the host, uses https. */
export function isSecure(redirectUri: string | undefined): boolean {
  return redirectUri?.startsWith('https:') === true;
}

export interface ReceivedCookie {
  /** True where it was sent with `__Host-`: a page of a sibling domain cannot set it. */
  secure: boolean;
  /** Value as it is sent. Sealed values need no decoding. */
  value: string;
}

/** The cookies of this name with and without `__Host-`. Only one with the prefix that the host's scheme asks for is valid. */
export function receivedCookies(http: HttpContext, name: string): ReceivedCookie[] {
  return [true, false].flatMap((secure) => {
    const value = receivedCookie(http, name, secure);
    return value === undefined ? [] : [{ secure, value }];
  });
}

/** The first cookie of this name. It is looked for as a text: to parse 15 kB of other names takes a millisecond and more. */
export function receivedCookie(http: HttpContext, name: string, secure: boolean): string | undefined {
  const header = http.header('cookie') ?? '';
  const start = `${sentName(name, secure)}=`;
  for (let at = header.indexOf(start); at >= 0; at = header.indexOf(start, at + 1)) {
    if (isCookieStart(header, at)) {
      const end = header.indexOf(';', at);
      return header.slice(at + start.length, end < 0 ? undefined : end).trim();
    }
  }
  return undefined;
}

function isCookieStart(header: string, at: number): boolean {
  let before = at - 1;
  while (header[before] === ' ' || header[before] === '\t') {
    before -= 1;
  }
  return before < 0 || header[before] === ';';
}

export function setCookie(
  http: HttpContext,
  name: string,
  value: string,
  attributes: CookieAttributes,
  ttl: number,
): void {
  addCookie(http, cookieOf(name, value, attributes, ttl));
}

/**
 * Sets a cookie when the head of the reply is written, if `isWanted` says so then. One of this name that the reply has by then
 * stays.
 */
export function setCookieWithHead(
  http: HttpContext,
  name: string,
  value: string,
  attributes: CookieAttributes,
  ttl: number,
  isWanted: () => boolean,
): void {
  const cookie = cookieOf(name, value, attributes, ttl);
  http.addCookieWithHead(
    stringifySetCookie(cookie),
    (others) => isWanted() && !others.some((other) => other.startsWith(`${cookie.name}=`)),
  );
}

/** Removes a cookie that was set with these attributes. */
export function clearCookie(http: HttpContext, name: string, attributes: CookieAttributes): void {
  addCookie(http, cookieOf(name, '', attributes, 0));
}

/** Removes the cookies of this name that the browser has after this reply, with and without `__Host-`. */
export function clearHeldCookies(
  http: HttpContext,
  name: string,
  sameSite: CookieAttributes['sameSite'],
): void {
  for (const secure of [true, false]) {
    if (heldCookie(http, name, secure) !== undefined) {
      clearCookie(http, name, { secure, sameSite });
    }
  }
}

/**
 * Keeps the sum of our cookies in its limit: if it is too large, the other pending logins go, and if it still is, the ID token, since
 * a logout at the provider works without it. Identity, selection and `kept` stay. To be called after a cookie was set.
 *
 * @param attributes of that cookie: in its context, browsers accept the removal of others with the same `sameSite`
 * @param kept name of the pending login that was just set
 */
export function fitCookies(
  http: HttpContext,
  { identity, selection, idToken, logins }: CookieNames,
  attributes: CookieAttributes,
  kept?: string,
): void {
  const { secure } = attributes;
  const all = [identity, selection, idToken, ...logins];
  const otherLogins = logins.filter((name) => name !== kept);
  for (const removable of [otherLogins, [idToken]]) {
    const bytes = all.reduce((sum, name) => sum + heldLength(http, name, secure), 0);
    if (bytes > MAX_BYTES) {
      removable
        .filter((name) => heldLength(http, name, secure) > 0)
        .forEach((name) => clearCookie(http, name, attributes));
    }
  }
}

/** Length of a cookie in a request: `name=value; `. */
function heldLength(http: HttpContext, name: string, secure: boolean): number {
  const value = heldCookie(http, name, secure);
  return value === undefined ? 0 : sentName(name, secure).length + Buffer.byteLength(value) + 3;
}

/** The cookie that the browser has after this reply. */
export function heldCookie(http: HttpContext, name: string, secure: boolean): string | undefined {
  const sent = sentName(name, secure);
  const changes = http.cookieChanges;
  return changes?.has(sent) ? changes.get(sent) : receivedCookie(http, name, secure);
}

function sentName(name: string, secure: boolean): string {
  return secure ? `${HOST_PREFIX}${name}` : name;
}

function cookieOf(
  name: string,
  value: string,
  { secure, sameSite }: CookieAttributes,
  ttl: number,
): SetCookie & { value: string } {
  return {
    name: sentName(name, secure),
    value,
    maxAge: Math.ceil(ttl / 1000),
    path: '/',
    httpOnly: true,
    secure: secure || sameSite === 'none',
    sameSite,
  };
}

function addCookie(http: HttpContext, cookie: SetCookie & { value: string }): void {
  http.addCookie(stringifySetCookie(cookie), cookie.name, cookie.value === '' ? undefined : cookie.value);
}
