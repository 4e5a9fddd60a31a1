import { createHash, randomBytes } from 'node:crypto';
import * as v from 'valibot';

const pendingLogin = v.object({
  tenant: v.string(),
  state: v.string(),
  nonce: v.string(),
  verifier: v.string(),
  redirectUri: v.string(),
  responseType: v.picklist(['code', 'code id_token', 'code token id_token']),
  startedAt: v.number(),
  eventId: v.optional(v.string()),
  returnTo: v.optional(v.string()),
});

/** A login under way: what its callback is held against. It lives sealed in a cookie of that browser. */
export type PendingLogin = v.InferOutput<typeof pendingLogin>;

/** What the login route knows when it starts a login. */
export type LoginStart = Pick<
  PendingLogin,
  'tenant' | 'redirectUri' | 'responseType' | 'eventId' | 'returnTo'
>;

// 256 bits each: neither state (RFC 9700 §4.7), nonce nor verifier (RFC 7636 §7.1) can be guessed.
const random = () => randomBytes(32).toString('base64url');

/** A new login, with its own state, nonce and PKCE verifier. */
export function startLogin(start: LoginStart): PendingLogin {
  return { ...start, state: random(), nonce: random(), verifier: random(), startedAt: Date.now() };
}

/** The login of an opened cookie; `undefined` if it is none. */
export function parsePendingLogin(value: unknown): PendingLogin | undefined {
  const parsed = v.safeParse(pendingLogin, value);
  return parsed.success ? parsed.output : undefined;
}

/** PKCE challenge, S256 (RFC 7636 §4.2). */
export function codeChallenge(verifier: string): string {
  return createHash('sha256').update(verifier).digest('base64url');
}
