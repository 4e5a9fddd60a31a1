import { stringifySetCookie } from 'cookie';
import type { HttpContext } from './http-context.js';

/** Browsers accept `__Host-` cookies only with Secure, `Path=/` and no Domain (RFC 6265bis §4.1.3.2). */
const HOST_PREFIX = '__Host-';

/** Characters that number the cookies of pending logins. */
export const LOGIN_DIGITS = Array.from('0123456789abcdef');

/**
 * Largest sum of our cookies in a request, in bytes: proxies accept header lines of 8 kB, and the host has cookies of its own.
 */
const MAX_BYTES = 7_000;

/**
 * Our cookies, by the end of their names: identity, ID token, selected exhibitors, and pending logins, numbered by
 * {@link LOGIN_DIGITS}. They are fixed: no other cookie of a request is read.
 */
export type OwnCookie = 'identity' | 'id-token' | 'selection' | `login-${string}`;

const LOGINS = LOGIN_DIGITS.map((digit): OwnCookie => `login-${digit}`);

/** Those that a host with enough room keeps. */
const ALL: readonly OwnCookie[] = ['identity', 'selection', 'id-token', ...LOGINS];

/** True where the callback address, and so the host, uses https. */
export function isSecure(redirectUri: string | undefined): boolean {
  return redirectUri?.startsWith('https:') === true;
}

type SameSite = 'lax' | 'none';

/** What differs between cookies. All are `HttpOnly` with `Path=/`. */
export interface CookieAttributes {
  /** True for a host with https: the cookie is `Secure` and has the `__Host-` prefix. */
  secure: boolean;
  /**
   * Default: that of the option. `none` is always `Secure`, since browsers ignore it otherwise: on http it is for loopback hosts,
   * where Chromium and Firefox keep and send such cookies.
   */
  sameSite?: SameSite;
}

export interface ReceivedCookie {
  /** True where it was sent with `__Host-`: a page of a sibling domain cannot set it. */
  secure: boolean;
  /** Value as it is sent. Sealed values need no decoding. */
  value: string;
}

/** Our cookies of a browser: those of a request, and those that its reply sets. */
export class OwnCookies {
  readonly #name: string;
  readonly #sameSite: SameSite;

  /** @param options `name` is how all of them begin */
  constructor({ name, sameSite }: { name: string; sameSite: SameSite }) {
    this.#name = name;
    this.#sameSite = sameSite;
  }

  /** Those of a request with and without `__Host-`. Only one with the prefix that the host's scheme asks for is valid. */
  received(http: HttpContext, cookie: OwnCookie): ReceivedCookie[] {
    const received: ReceivedCookie[] = [];
    for (const secure of [true, false]) {
      const value = receivedCookie(http, this.#sentName(cookie, secure));
      if (value !== undefined) {
        received.push({ secure, value });
      }
    }
    return received;
  }

  /** The one that the browser has after the reply. */
  held(http: HttpContext, cookie: OwnCookie, secure: boolean): string | undefined {
    const name = this.#sentName(cookie, secure);
    const set = http.replyCookie(name);
    if (set !== undefined) {
      return set.value === '' ? undefined : set.value;
    }
    return receivedCookie(http, name);
  }

  /** Sets a cookie. Others go where all together would be too large. */
  set(http: HttpContext, cookie: OwnCookie, value: string, attributes: CookieAttributes, ttl: number): void {
    this.#add(http, cookie, value, attributes, ttl);
    this.#fit(http, cookie, attributes);
  }

  /** Sets a cookie if `isWanted` says so when the head of the reply is written, unless the reply sets it otherwise. */
  setIfWanted(
    http: HttpContext,
    cookie: OwnCookie,
    value: string,
    attributes: CookieAttributes,
    ttl: number,
    isWanted: () => boolean,
  ): void {
    this.#add(http, cookie, value, attributes, ttl, isWanted);
  }

  /** Removes a cookie that was set with these attributes. */
  clear(http: HttpContext, cookie: OwnCookie, attributes: CookieAttributes): void {
    this.#add(http, cookie, '', attributes, 0);
  }

  /** Removes those that the browser has after the reply, with and without `__Host-`. */
  clearHeld(http: HttpContext, cookie: OwnCookie): void {
    for (const secure of [true, false]) {
      if (this.held(http, cookie, secure) !== undefined) {
        this.clear(http, cookie, { secure });
      }
    }
  }

  /**
   * Keeps the sum of our cookies in its limit: if it is too large, the other pending logins go, and if it still is, the ID token, since
   * a logout at the provider works without it.
   *
   * @param set the one that was just set, with its attributes: in its context, browsers accept the removal of others with the same
   * `sameSite`
   */
  #fit(http: HttpContext, set: OwnCookie, attributes: CookieAttributes): void {
    const { secure } = attributes;
    const otherLogins = LOGINS.filter((cookie) => cookie !== set);
    for (const removable of [otherLogins, ['id-token'] as const]) {
      const bytes = ALL.reduce((sum, cookie) => sum + this.#heldLength(http, cookie, secure), 0);
      if (bytes > MAX_BYTES) {
        removable
          .filter((cookie) => this.held(http, cookie, secure) !== undefined)
          .forEach((cookie) => this.clear(http, cookie, attributes));
      }
    }
  }

  /** Length of a cookie in a request: `name=value; `. */
  #heldLength(http: HttpContext, cookie: OwnCookie, secure: boolean): number {
    const value = this.held(http, cookie, secure);
    return value === undefined ? 0 : this.#sentName(cookie, secure).length + Buffer.byteLength(value) + 3;
  }

  #sentName(cookie: OwnCookie, secure: boolean): string {
    return `${secure ? HOST_PREFIX : ''}${this.#name}-${cookie}`;
  }

  #add(
    http: HttpContext,
    cookie: OwnCookie,
    value: string,
    { secure, sameSite = this.#sameSite }: CookieAttributes,
    ttl: number,
    isWanted?: () => boolean,
  ): void {
    const name = this.#sentName(cookie, secure);
    const header = stringifySetCookie({
      name,
      value,
      maxAge: Math.ceil(ttl / 1000),
      path: '/',
      httpOnly: true,
      secure: secure || sameSite === 'none',
      sameSite,
    });
    http.setCookie(name, { value, header, isWanted });
  }
}

/** The first cookie of this name. It is looked for as a text: to parse 15 kB of other names takes a millisecond and more. */
function receivedCookie(http: HttpContext, name: string): string | undefined {
  const header = http.header('cookie') ?? '';
  const start = `${name}=`;
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
