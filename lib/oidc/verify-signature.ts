import type { CompactJWSHeaderParameters, errors, JWTPayload, JWTVerifyOptions } from 'jose';
import { parseRecord } from '../http/wire/reply-body.js';
import type { KeyHint, KeySet } from './key-set.js';

export interface VerifiedToken {
  header: CompactJWSHeaderParameters;
  payload: JWTPayload;
}

/** What jose says of a token that a key has signed and whose claims do not fit. */
export type ClaimFailure = errors.JWTClaimValidationFailed | errors.JWTExpired;

/** No key of the set verifies the token. */
export interface NotVerified {
  /** What the token should have, in the words of an operator's line. */
  readonly expected: string;
}

/**
 * Verifies the signature of a JWT by a key of the set, and then its claims. Where several keys fit, each is tried if the token names a
 * `kid`, else none (OIDC Core §10.1). `none` and MACs are never among the algorithms.
 */
export async function verifyToken(
  token: string,
  hint: KeyHint,
  { kids, fitting }: KeySet,
  options: JWTVerifyOptions,
): Promise<VerifiedToken | ClaimFailure | NotVerified> {
  // Loading jose takes 30 ms of CPU time, so it is done when it is first needed.
  const { errors, jwtVerify } = await import('jose');
  const keys = await fitting(hint);
  if (keys.length === 0) {
    const isKid = kids.length === 0 || kids.includes(hint.kid ?? 'none');
    return { expected: isKid ? 'a key for this alg' : `kid ${kids.join(' or ')}` };
  }
  if (keys.length > 1 && hint.kid === undefined) {
    return { expected: `a kid, since ${keys.length} keys fit` };
  }
  for (const key of keys) {
    try {
      const { protectedHeader, payload } = await jwtVerify(token, key, options);
      return { header: protectedHeader, payload };
    } catch (error) {
      // The signature is verified before the claims.
      if (error instanceof errors.JWTClaimValidationFailed || error instanceof errors.JWTExpired) {
        return error;
      }
      // The next key may have signed it.
    }
  }
  const by = keys.length === 1 ? 'the key' : `one of the ${keys.length} keys that fit`;
  return { expected: `a signature by ${by}` };
}

/** Header or claims of a JWT that is not verified yet: they prove nothing. Empty where they are unreadable. */
export function unverified(token: string, part: 'header' | 'claims'): Record<string, unknown> {
  // An encrypted token has five parts, of which only the header is readable.
  const parts = token.split('.', 6);
  const isComplete = parts.length === 3 || (parts.length === 5 && part === 'header');
  const text = parts[part === 'header' ? 0 : 1] ?? '';
  const bytes = Buffer.from(text, 'base64url');
  // Buffer ignores what is not base64url, so that the encoded form must be compared.
  return isComplete && bytes.toString('base64url') === text ? parseRecord(bytes) : {};
}
