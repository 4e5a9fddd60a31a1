import { parseCookie, stringifySetCookie, type SetCookie } from 'cookie';
import type { HttpContext } from './http-context.js';

/** Browsers refuse cookies without it being Secure, host-only and on `/` (RFC 6265bis §4.1.3.2). */
const HOST_PREFIX = '__Host-';

/** Name as it is sent: prefixed where the callback is https. */
export function cookieName(name: string, secure: boolean): string {
  return secure ? `${HOST_PREFIX}${name}` : name;
}

/** A cookie of the request, its prefix told apart. */
export interface ReceivedCookie {
  name: string;
  secure: boolean;
  value: string;
}

/** The cookies of a request whose name, without prefix, starts with `prefix`. */
export function receivedCookies(http: HttpContext, prefix: string): ReceivedCookie[] {
  const header = http.header('cookie');
  if (header === undefined) {
    return [];
  }
  return Object.entries(parseCookie(header)).flatMap(([sent, value]) => {
    const secure = sent.startsWith(HOST_PREFIX);
    const name = secure ? sent.slice(HOST_PREFIX.length) : sent;
    return name.startsWith(prefix) && value !== undefined ? [{ name, secure, value }] : [];
  });
}

/** How a cookie is kept. */
export interface CookieAttributes {
  secure: boolean;
  sameSite: 'lax' | 'strict' | 'none';
}

/** Sets a cookie for `ttl` milliseconds. */
export function setCookie(
  http: HttpContext,
  name: string,
  value: string,
  attributes: CookieAttributes,
  ttl: number,
): void {
  http.addCookie(serialize(name, value, attributes, Math.ceil(ttl / 1000)));
}

/** Removes a cookie from the browser. */
export function clearCookie(http: HttpContext, name: string, attributes: CookieAttributes): void {
  http.addCookie(serialize(name, '', attributes, 0));
}

function serialize(
  name: string,
  value: string,
  { secure, sameSite }: CookieAttributes,
  maxAge: number,
): string {
  const cookie: SetCookie = {
    name: cookieName(name, secure),
    value,
    maxAge,
    path: '/',
    httpOnly: true,
    secure,
    sameSite,
  };
  return stringifySetCookie(cookie);
}
