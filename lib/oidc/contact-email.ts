import type { LoginFailureReason } from '../errors/login-failed.error.js';
import type { Claims } from './user-info.service.js';
import type { LoginSettings } from '../options/tenant-settings.js';

type EmailRules = Pick<LoginSettings, 'emailClaim' | 'requireVerifiedEmail'>;

/** True where the claims have the e-mail address and, if required, its verification: userinfo is not needed. */
export function hasContactEmail(claims: Claims, rules: EmailRules): boolean {
  if (emailOf(claims, rules) === undefined) {
    return false;
  }
  return !rules.requireVerifiedEmail || claims['email_verified'] !== undefined;
}

/**
 * The contact e-mail address, unchanged, of the first source that has one; or the reason of the refusal. `email_verified:
 * false` in any source is a refusal. Some providers send it as a string.
 *
 * @param sources claims of the token, then of userinfo
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

/** Claims that describe the token, not the user (RFC 7519 §4.1, OIDC Core §2). */
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

/** Claims of the user. Those of the token, which is signed, take precedence over userinfo. */
export function userClaims(token: Claims, userinfo: Claims | undefined): Claims {
  const merged = { ...userinfo, ...token };
  return Object.fromEntries(Object.entries(merged).filter(([name]) => !PROTOCOL_CLAIMS.has(name)));
}
