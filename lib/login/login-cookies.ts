/**
 * Pending logins, each in a sealed cookie of its own. The name of the cookie contains the start time and a digest of the
 * state, so that several tabs can log in at the same time and no session is needed.
 */
import {
  clearCookie,
  isSecure,
  receivedCookies,
  setCookie,
  type CookieAttributes,
  type ReceivedCookie,
} from '../http/cookies.js';
import type { HttpContext } from '../http/http-context.js';
import { LOGIN_COOKIE, trimCookies } from '../http/trim-cookies.js';
import { shortDigestOf } from '../model/digest.js';
import type { Sealer } from '../store/sealer.service.js';
import { isHybrid } from './browser-login.js';
import { parsePendingLogin, type PendingLogin } from './pending-login.js';

/** Stores a pending login in the browser for `ttl` milliseconds, and removes the oldest ones beyond the limits. */
export async function keepPendingLogin(
  http: HttpContext,
  sealer: Sealer,
  login: PendingLogin,
  ttl: number,
): Promise<void> {
  const name = `${LOGIN_COOKIE}${login.startedAt.toString(36)}-${shortDigestOf(login.state)}`;
  const sealed = await sealer.seal('login', login, ttl);
  const attributes = attributesOf(login);
  setCookie(http, name, sealed, attributes, ttl);
  trimCookies(http, attributes.sameSite, name);
}

/** The pending login with this state in this browser. */
export async function findPendingLogin(
  http: HttpContext,
  sealer: Sealer,
  state: string,
): Promise<PendingLogin | undefined> {
  for (const cookie of cookiesOf(http, state)) {
    const login = parsePendingLogin(await sealer.open('login', cookie.value));
    // Without the check of the prefix, a sibling domain could set a login of its own (RFC 9700 §4.7).
    if (login?.state === state && cookie.secure === isSecure(login.redirectUri)) {
      return login;
    }
  }
  return undefined;
}

/** Removes a pending login from the browser. */
export function clearPendingLogin(http: HttpContext, login: PendingLogin): void {
  for (const { name, secure } of cookiesOf(http, login.state)) {
    clearCookie(http, name, attributesOf(login, secure));
  }
}

function cookiesOf(http: HttpContext, state: string): ReceivedCookie[] {
  const suffix = `-${shortDigestOf(state)}`;
  return receivedCookies(http, LOGIN_COOKIE).filter(({ name }) => name.endsWith(suffix));
}

/** A form_post is a cross-site request: its cookie needs `SameSite=None`. Plain http is a loopback host, see the options. */
function attributesOf(login: PendingLogin, secure = isSecure(login.redirectUri)): CookieAttributes {
  return { secure, sameSite: isHybrid(login) ? 'none' : 'lax' };
}
