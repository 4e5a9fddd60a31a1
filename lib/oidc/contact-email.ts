import type { LoginFailureReason } from '../errors/login-failed.error.js';
import type { LoginSettings } from '../options/tenant-settings.js';

type EmailRules = Pick<LoginSettings, 'emailClaim' | 'requireVerifiedEmail'>;
type Claims = Record<string, unknown>;

/** Whether claims hold all that is needed of the e-mail address, so that userinfo need not be asked. */
export function hasContactEmail(claims: Claims, rules: EmailRules): boolean {
  if (emailOf(claims, rules) === undefined) {
    return false;
  }
  return !rules.requireVerifiedEmail || claims['email_verified'] !== undefined;
}

/**
 * The contact e-mail address out of the ID token, then userinfo, byte for byte; or why there is none. `false` for
 * `email_verified` in either is a refusal; some providers send it as a string.
 */
export function contactEmail(
  sources: readonly Claims[],
  rules: EmailRules,
): { email: string } | { refusal: LoginFailureReason } {
  const email = sources.map((claims) => emailOf(claims, rules)).find((value) => value !== undefined);
  if (email === undefined) {
    return { refusal: 'email_missing' };
  }
  const verified = sources.map((claims) => String(claims['email_verified'] ?? ''));
  if (verified.includes('false')) {
    return { refusal: 'email_unverified' };
  }
  if (rules.requireVerifiedEmail && !verified.includes('true')) {
    return { refusal: 'email_unverified' };
  }
  return { email };
}

function emailOf(claims: Claims, { emailClaim }: EmailRules): string | undefined {
  const value = Object.hasOwn(claims, emailClaim) ? claims[emailClaim] : undefined;
  return typeof value === 'string' && value.includes('@') ? value : undefined;
}

/** Claims about the token, not about the person (RFC 7519 §4.1, OIDC Core §2). */
const PROTOCOL_CLAIMS = new Set([
  'iss',
  'aud',
  'exp',
  'iat',
  'nbf',
  'jti',
  'nonce',
  'azp',
  'at_hash',
  'c_hash',
  's_hash',
]);

/** Claims about the person: userinfo's, under those of the ID token, which are signed. */
export function personClaims(idToken: Claims, userinfo: Claims | undefined): Claims {
  const merged = { ...userinfo, ...idToken };
  return Object.fromEntries(Object.entries(merged).filter(([name]) => !PROTOCOL_CLAIMS.has(name)));
}
