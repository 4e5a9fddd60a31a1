import type { LoginFailureReason } from '../errors/login-failed.error.js';
import { isContactEmail } from '../model/path-parameters.js';
import type { LoginSettings } from '../options/tenant-settings.js';

/** Of a token or of userinfo. */
export type Claims = Record<string, unknown>;

type EmailRules = Pick<LoginSettings, 'emailClaim' | 'requireVerifiedEmail'>;

/**
 * The contact e-mail address, unchanged, of the first source that has one; or the reason of the refusal. Where there is an address,
 * `email_verified: false` in any source is a refusal. Some providers send it as a string; Keycloak sends it without any address.
 *
 * @param sources claims of the token, then of userinfo
 */
export function contactEmail(
  sources: readonly Claims[],
  rules: EmailRules,
): { email: string } | { reason: LoginFailureReason } {
  const email = sources.map((claims) => emailOf(claims, rules)).find((value) => value !== undefined);
  if (email === undefined) {
    return { reason: 'email_missing' };
  }
  if (sources.some(isDenied)) {
    return { reason: 'email_unverified' };
  }
  if (rules.requireVerifiedEmail && !sources.some((claims) => isVerified(claims, email))) {
    return { reason: 'email_unverified' };
  }
  return { email };
}

/** `email_verified: true` is about the `email` of the same source (OIDC Core §5.1), and about no other address. */
function isVerified({ email, email_verified: flag }: Claims, address: string): boolean {
  return email === address && (flag === true || flag === 'true');
}

/** True for claims that deny their address: no other source can mend that. */
export function isDenied({ email_verified: flag }: Claims): boolean {
  return String(flag) === 'false';
}

/** The address as it is. One that cannot be looked up counts as none. */
function emailOf(claims: Claims, { emailClaim }: EmailRules): string | undefined {
  const value = Object.hasOwn(claims, emailClaim) ? claims[emailClaim] : undefined;
  return isContactEmail(value) ? value : undefined;
}
