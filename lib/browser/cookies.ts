import { stringifySetCookie } from 'cookie';
import type { HttpContext } from './http-context.js';

/** Browsers accept `__Host-` cookies only with Secure, `Path=/` and no Domain (RFC 6265bis §4.1.3.2). */
const HOST_PREFIX = '__Host-';

/**
 * Our cookies, by the end of their names: identity, ID token, selected exhibitors, that a guard led to the login, and one for each
 * started login. A value is read by the whole name of its cookie. For started logins, names are looked through: of many, the oldest go.
 */
export type OwnCookie = 'identity' | 'id-token' | 'selection' | 'led' | LoginCookie;

type LoginCookie = `login-${string}`;

/** Characters by which the cookies of started logins differ. */
const LOGIN_CHARACTERS = 8;

/** The cookie of a started login, by a digest of its id in base64url. */
export const loginCookieOf = (digest: string): LoginCookie => `login-${digest.slice(0, LOGIN_CHARACTERS)}`;

/** Not a cookie of another service, whose name may end with `-login`. */
const isLogin = (cookie: string): cookie is LoginCookie =>
  /^login-(?!identity$|id-token$)[\w-]+$/.test(cookie) &&
  cookie.length === 'login-'.length + LOGIN_CHARACTERS;

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
  /** Set anew for an active user. See {@link ReplyCookie}. */
  isRenewed?: boolean;
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

  /** The cookies of a request, with and without `__Host-`. Only the one with the prefix that the host's scheme asks for is valid. */
  received(http: HttpContext, cookie: OwnCookie): ReceivedCookie[] {
    const header = http.header('cookie');
    const received: ReceivedCookie[] = [];
    for (const secure of [true, false]) {
      const value = valueIn(this.#sentName(cookie, secure), header);
      if (value !== undefined) {
        received.push({ secure, value });
      }
    }
    return received;
  }

  /** The value that the browser has after the reply. */
  read(http: HttpContext, cookie: OwnCookie, secure: boolean): string | undefined {
    const name = this.#sentName(cookie, secure);
    const set = http.replyCookie(name);
    return set === undefined ? valueIn(name, http.header('cookie')) : set.value || undefined;
  }

  /** The cookies of started logins that a request has. Browsers send the oldest first (RFC 6265 §5.4). */
  sentLogins(http: HttpContext, secure: boolean): OwnCookie[] {
    const start = this.#sentName('', secure);
    const names = (http.header('cookie') ?? '').split(';').map((pair) => pair.split('=', 1).join().trim());
    return names
      .filter((name) => name.startsWith(start))
      .map((name) => name.slice(start.length))
      .filter(isLogin);
  }

  /** True where the reply sets or clears it so far. */
  isSet(http: HttpContext, cookie: OwnCookie, { secure }: CookieAttributes): boolean {
    return http.replyCookie(this.#sentName(cookie, secure)) !== undefined;
  }

  set(
    http: HttpContext,
    cookie: OwnCookie,
    value: string,
    { secure, sameSite = this.#sameSite, isRenewed }: CookieAttributes,
    ttl: number,
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
    http.setCookie(name, { value, header, isRenewed });
  }

  /** Removes a cookie that was set with these attributes. */
  clear(http: HttpContext, cookie: OwnCookie, attributes: CookieAttributes): void {
    this.set(http, cookie, '', attributes, 0);
  }

  /** Removes the cookies that the browser has after the reply, with and without `__Host-`. */
  clearAll(http: HttpContext, cookie: OwnCookie): void {
    for (const secure of [true, false]) {
      if (this.read(http, cookie, secure) !== undefined) {
        this.clear(http, cookie, { secure });
      }
    }
  }

  #sentName(cookie: OwnCookie | '', secure: boolean): string {
    return `${secure ? HOST_PREFIX : ''}${this.#name}-${cookie}`;
  }
}

/** The first cookie of this name. It is looked for as a text: to parse 15 kB of other names takes a millisecond and more. */
function valueIn(name: string, header = ''): string | undefined {
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
