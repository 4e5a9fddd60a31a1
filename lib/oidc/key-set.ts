import { createPublicKey, type KeyObject } from 'node:crypto';
import type { CompactVerifyGetKey, JWK } from 'jose';
import { isJwk, MOST_KEYS } from '../options/key-source.js';

/** Characters of a modulus or exponent of 16,384 bits, in base64url. OpenSSL verifies with none that is longer. */
const LONGEST_MEMBER = 2_731;

export interface KeySet {
  /** For the doctor, which compares two sets. */
  readonly keys: readonly KeyObject[];
  readonly kids: ReadonlySet<string | undefined>;
  readonly getKey: CompactVerifyGetKey;
}

/** The usable public keys of a JWKS; `undefined` where there is none, or too many. One bad key does not make every login fail. */
export async function keySetOf(jwks: { keys?: unknown }): Promise<KeySet | undefined> {
  const published: unknown[] = Array.isArray(jwks.keys) ? jwks.keys : [];
  const usable = published.length > MOST_KEYS ? [] : published.flatMap((jwk) => usableKey(jwk) ?? []);
  if (usable.length === 0) {
    return undefined;
  }
  const { createLocalJWKSet } = await import('jose');
  return {
    keys: usable.map(({ key }) => key),
    kids: new Set(usable.map(({ jwk }) => jwk.kid)),
    getKey: createLocalJWKSet({ keys: usable.map(({ jwk }) => jwk) }),
  };
}

/** RSA keys need 2048 bits (RFC 7518 §3.3). Node reports length 0 for a modulus that it cannot read. */
function usableKey(jwk: unknown): { jwk: JWK; key: KeyObject } | undefined {
  if (!isJwk(jwk) || jwk.kty === 'oct' || jwk.d !== undefined || !isShort(jwk.n) || !isShort(jwk.e)) {
    return undefined;
  }
  try {
    const key = createPublicKey({ key: jwk, format: 'jwk' });
    return (key.asymmetricKeyDetails?.modulusLength ?? 2048) >= 2048 ? { jwk, key } : undefined;
  } catch {
    return undefined;
  }
}

/** The time to import an exponent grows with the square of its length: 95 KB take a second. */
function isShort(member: unknown): boolean {
  return typeof member !== 'string' || member.length <= LONGEST_MEMBER;
}
