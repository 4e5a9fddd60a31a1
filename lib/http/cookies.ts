import { parseCookie, stringifySetCookie, type SetCookie } from 'cookie';
import type { HttpContext } from './http-context.js';

export const IDENTITY_COOKIE = 'exhibitor-identity';

export const EXTENSION_COOKIE = 'exhibitor-identity-extension';

/** Name of the cookie with the ID token, for the logout at the provider. */
export const ID_TOKEN_COOKIE = 'exhibitor-id-token';

/** Start of the name of a pending login; the time of its start in base 36 follows. */
export const LOGIN_COOKIE = 'exhibitor-login-';

/** Browsers accept `__Host-` cookies only with Secure, `Path=/` and no Domain (RFC 6265bis §4.1.3.2). */
const HOST_PREFIX = '__Host-';

const AS_SENT = { decode: (value: string): string => value };

export interface ReceivedCookie {
  /** Name as it is sent. */
  sent: string;
  /** Name without `__Host-`. */
  name: string;
  /** True where it was sent with `__Host-`. */
  secure: boolean;
  /** Value as it is sent. Sealed values need no decoding. */
  value: string;
}

/** True where the callback address, and so the host, uses https. */
export function isSecure(redirectUri: string | undefined): boolean {
  return redirectUri?.startsWith('https:') === true;
}

/** The cookie of this name, that with `__Host-` first: a page of a sibling domain cannot set it. */
export function cookiesNamed(http: HttpContext, name: string): ReceivedCookie[] {
  const cookies = parse(http);
  return [`${HOST_PREFIX}${name}`, name].flatMap((sent) => toCookies(sent, cookies[sent], name));
}

/** The cookies of a request whose name, without `__Host-`, starts with `prefix`. */
export function receivedCookies(http: HttpContext, prefix: string): ReceivedCookie[] {
  return Object.entries(parse(http)).flatMap(([sent, value]) => toCookies(sent, value, prefix));
}

function parse(http: HttpContext): Record<string, string | undefined> {
  return parseCookie(http.header('cookie') ?? '', AS_SENT);
}

/** The cookies that the browser has after this reply. */
export function heldCookies(http: HttpContext, prefix: string): ReceivedCookie[] {
  const changes = http.cookieChanges;
  const received = receivedCookies(http, prefix).filter(({ sent }) => !changes.has(sent));
  return [...received, ...[...changes].flatMap(([sent, value]) => toCookies(sent, value, prefix))];
}

export function heldNamed(http: HttpContext, ...names: string[]): ReceivedCookie[] {
  return heldCookies(http, '').filter(({ name }) => names.includes(name));
}

function toCookies(sent: string, value: string | undefined, prefix: string): ReceivedCookie[] {
  const secure = sent.startsWith(HOST_PREFIX);
  const name = secure ? sent.slice(HOST_PREFIX.length) : sent;
  return name.startsWith(prefix) && value !== undefined ? [{ sent, name, secure, value }] : [];
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

export function setCookie(
  http: HttpContext,
  name: string,
  value: string,
  attributes: CookieAttributes,
  ttl: number,
): void {
  const sent = attributes.secure ? `${HOST_PREFIX}${name}` : name;
  http.addCookie(serialize(sent, value, attributes, Math.ceil(ttl / 1000)));
  http.cookieChanges.set(sent, value);
}

/** Removes cookies from the browser. They were set with this `sameSite`. */
export function clearCookies(
  http: HttpContext,
  cookies: readonly ReceivedCookie[],
  sameSite: CookieAttributes['sameSite'],
): void {
  for (const { sent, secure } of cookies) {
    http.addCookie(serialize(sent, '', { secure, sameSite }, 0));
    http.cookieChanges.set(sent, undefined);
  }
}

function serialize(
  sent: string,
  value: string,
  { secure, sameSite }: CookieAttributes,
  maxAge: number,
): string {
  const cookie: SetCookie = {
    name: sent,
    value,
    maxAge,
    path: '/',
    httpOnly: true,
    secure: secure || sameSite === 'none',
    sameSite,
  };
  return stringifySetCookie(cookie);
}
