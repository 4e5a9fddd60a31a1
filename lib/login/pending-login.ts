import { randomBytes } from 'node:crypto';
import * as v from 'valibot';
import { digestOf, shortDigestOf } from '../model/digest.js';

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
});

/** A login that was started. It is sealed in a cookie of the browser, and the callback is compared with it. */
export type PendingLogin = v.InferOutput<typeof pendingLogin>;

/** What the login route knows. */
export type LoginStart = Pick<
  PendingLogin,
  'tenant' | 'provider' | 'redirectUri' | 'responseType' | 'eventId' | 'returnTo' | 'startedAt' | 'maxAge'
>;

/** 256 random bits: neither state (RFC 9700 §4.7), nonce nor verifier (RFC 7636 §7.1) can be guessed. */
const random = () => randomBytes(32).toString('base64url');

/** A new login with its own state, nonce and PKCE verifier. */
export function createPendingLogin(start: LoginStart): PendingLogin {
  return { ...start, state: random(), nonce: random(), verifier: random() };
}

/** The login in an opened cookie; `undefined` where it has another form. */
export function parsePendingLogin(value: unknown): PendingLogin | undefined {
  const parsed = v.safeParse(pendingLogin, value);
  return parsed.success ? parsed.output : undefined;
}

/**
 * Names the issuer and the client of a login. A digest, since all pending logins of a browser share few bytes of cookies.
 */
export function providerDigest(issuer: string, clientId: string): string {
  return shortDigestOf(JSON.stringify([issuer, clientId]));
}

/** PKCE challenge with S256 (RFC 7636 §4.2). */
export function codeChallenge(verifier: string): string {
  return digestOf(verifier);
}

const MAX_RETURN_TO_BYTES = 512;
const CONTROL_OR_BACKSLASH = /[\p{Cc}\\]/u;
const ANY_ORIGIN = 'http://origin.invalid';

/**
 * A `returnTo` that is a path of this origin, of at most 512 bytes, and leads to one. Anything else is dropped and does not
 * fail the login. Browsers read `//` and `/\` as the start of another host.
 */
export function safeReturnTo(value: unknown): string | undefined {
  if (typeof value !== 'string' || Buffer.byteLength(value) > MAX_RETURN_TO_BYTES) {
    return undefined;
  }
  if (!value.startsWith('/') || value.startsWith('//') || CONTROL_OR_BACKSLASH.test(value)) {
    return undefined;
  }
  return normalizeReturnTo(value) === undefined ? undefined : value;
}

/**
 * The path that a browser would request: percent-encoded, since headers are ASCII, and without `.` and `..`. `undefined` where
 * that is no path of this origin: `/..//evil` becomes `//evil`.
 */
export function normalizeReturnTo(returnTo: string): string | undefined {
  if (!URL.canParse(returnTo, ANY_ORIGIN)) {
    return undefined;
  }
  const { origin, pathname, search, hash } = new URL(returnTo, ANY_ORIGIN);
  return origin === ANY_ORIGIN && !pathname.startsWith('//') ? `${pathname}${search}${hash}` : undefined;
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
  const path = normalizeReturnTo(returnTo ?? '');
  return {
    tenant,
    ...(eventId === undefined ? {} : { eventId }),
    ...(path === undefined ? {} : { returnTo: path }),
  };
}
