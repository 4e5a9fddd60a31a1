import { randomBytes } from 'node:crypto';
import * as v from 'valibot';
import {
  clearCookies,
  heldCookies,
  isSecure,
  LOGIN_COOKIE,
  receivedCookies,
  setCookie,
  type CookieAttributes,
  type ReceivedCookie,
} from '../http/cookies.js';
import type { HttpContext } from '../http/http-context.js';
import { trimCookies } from '../http/trim-cookies.js';
import { shortDigestOf } from '../model/digest.js';
import type { ExhibitorSettings } from '../options/exhibitor-settings.js';
import type { Sealer } from '../store/sealer.service.js';
import { isHybrid, type BrowserLogin } from '../tenants/tenant.js';
import { normalizeReturnTo } from './return-to.js';

const pendingLogin = v.object({
  tenant: v.string(),
  /** Digest of issuer and client, see {@link providerDigest}. */
  provider: v.string(),
  state: v.string(),
  nonce: v.string(),
  verifier: v.string(),
  redirectUri: v.string(),
  responseType: v.picklist(['code', 'code id_token', 'code token id_token']),
  startedAt: v.number(),
  eventId: v.optional(v.string()),
  returnTo: v.optional(v.string()),
  /** Seconds; the smaller of the option and the parameter of this login. */
  maxAge: v.optional(v.number()),
  /** Identities that this login replaces. */
  former: v.optional(v.array(v.object({ id: v.string(), tenant: v.string(), expiresAt: v.number() })), []),
});

/** A login that was started. It is sealed in a cookie of the browser, and the callback is compared with it. */
export type PendingLogin = v.InferOutput<typeof pendingLogin>;

/** Each login denies the one before it, so that the last few are enough: browsers ignore a cookie that is too large. */
const MOST_FORMER = 3;

/** 256 random bits: neither state (RFC 9700 §4.7), nonce nor verifier (RFC 7636 §7.1) can be guessed. */
const random = () => randomBytes(32).toString('base64url');

export function createPendingLogin(start: Omit<PendingLogin, 'state' | 'nonce' | 'verifier'>): PendingLogin {
  return { ...start, state: random(), nonce: random(), verifier: random() };
}

/**
 * Names the issuer and the client of a login. A digest, since all pending logins of a browser share few bytes of cookies.
 */
export function providerDigest({ issuer, clientId }: BrowserLogin): string {
  return shortDigestOf(JSON.stringify([issuer, clientId]));
}

/**
 * Stores a pending login in a sealed cookie of its own for `ttl` milliseconds, and removes the oldest ones beyond the limits. Its
 * name contains the start time and a digest of the state: several tabs can log in at the same time, without a session.
 */
export async function keepPendingLogin(
  http: HttpContext,
  sealer: Sealer,
  login: PendingLogin,
  ttl: number,
): Promise<void> {
  const name = `${LOGIN_COOKIE}${login.startedAt.toString(36)}-${shortDigestOf(login.state)}`;
  const sealed = await sealer.seal('login', login, ttl);
  const sameSite = sameSiteOf(login);
  setCookie(http, name, sealed, { secure: isSecure(login.redirectUri), sameSite }, ttl);
  trimCookies(http, sameSite, (pending) => pending.name === name);
}

/**
 * Adds a new identity to the other pending logins of this browser, which replace it: a callback by the form of another site
 * brings no identity cookie, and with `sameSite: 'strict'` none does.
 */
export async function addFormer(
  http: HttpContext,
  sealer: Sealer,
  { id, tenant, expiresAt }: PendingLogin['former'][number],
  { loginTtl, sameSite }: ExhibitorSettings['cookies'],
  now: number,
): Promise<void> {
  for (const cookie of heldCookies(http, LOGIN_COOKIE)) {
    const login = await openLogin(sealer, cookie);
    if (login !== undefined && (isHybrid(login) || sameSite === 'strict')) {
      const former = [...login.former, { id, tenant, expiresAt }].slice(-MOST_FORMER);
      await keepPendingLogin(http, sealer, { ...login, former }, login.startedAt + loginTtl - now);
    }
  }
}

export async function findPendingLogin(
  http: HttpContext,
  sealer: Sealer,
  state: string,
): Promise<PendingLogin | undefined> {
  for (const cookie of cookiesOf(http, state)) {
    const login = await openLogin(sealer, cookie);
    if (login?.state === state) {
      return login;
    }
  }
  return undefined;
}

async function openLogin(sealer: Sealer, cookie: ReceivedCookie): Promise<PendingLogin | undefined> {
  const { output: login, success } = v.safeParse(pendingLogin, await sealer.open('login', cookie.value));
  // Without the check of the prefix, a sibling domain could set a login of its own (RFC 9700 §4.7).
  return success && cookie.secure === isSecure(login.redirectUri) ? login : undefined;
}

export function clearPendingLogin(http: HttpContext, login: PendingLogin): void {
  clearCookies(http, cookiesOf(http, login.state), sameSiteOf(login));
}

function cookiesOf(http: HttpContext, state: string): ReceivedCookie[] {
  const suffix = `-${shortDigestOf(state)}`;
  return receivedCookies(http, LOGIN_COOKIE).filter(({ name }) => name.endsWith(suffix));
}

/** A form_post is a cross-site request: its cookie needs `SameSite=None`. Plain http is a loopback host, see the options. */
function sameSiteOf(login: PendingLogin): CookieAttributes['sameSite'] {
  return isHybrid(login) ? 'none' : 'lax';
}

/** The login that a callback belongs to. */
export interface StartedLogin {
  /** Key of the tenant. */
  tenant: string;
  eventId?: string;
  /** A path of this origin, percent-encoded. */
  returnTo?: string;
}

/** What a host may know of a pending login. */
export function startedLogin({ tenant, eventId, returnTo }: PendingLogin): StartedLogin {
  const path = returnTo === undefined ? undefined : normalizeReturnTo(returnTo);
  return {
    tenant,
    ...(eventId === undefined ? {} : { eventId }),
    ...(path === undefined ? {} : { returnTo: path }),
  };
}
