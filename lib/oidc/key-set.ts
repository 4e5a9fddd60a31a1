import { createPublicKey, type KeyObject } from 'node:crypto';
import type { CryptoKey, JWK } from 'jose';
import { importKey, MOST_KEYS, parseJwk } from '../config/key-source.js';

/** Characters of a modulus or exponent of 16,384 bits, in base64url. OpenSSL verifies with none that is longer. */
const LONGEST_MEMBER = 2_731;

/** What the header of a token says of its key. */
export type KeyHint = { alg: string; kid: string | undefined };

export interface KeySet {
  /** For the doctor, which compares two sets. */
  readonly keys: readonly KeyObject[];
  /** What a token must name. Empty for a key that has none and is alone: it serves tokens of any `kid`, and of none. */
  readonly kids: readonly string[];
  /** The different keys that may have signed a token with this header. */
  readonly fitting: (hint: KeyHint) => Promise<readonly (KeyObject | CryptoKey)[]>;
}

/** The usable public keys of a JWKS; `undefined` where there is none, or too many. One bad key does not make every login fail. */
export async function keySetOf(jwks: { keys?: unknown }): Promise<KeySet | undefined> {
  const published: unknown[] = Array.isArray(jwks.keys) ? jwks.keys : [];
  const usable = published.length > MOST_KEYS ? [] : published.flatMap((jwk) => usableKey(jwk) ?? []);
  if (usable.length === 0) {
    return undefined;
  }
  const { createLocalJWKSet } = await import('jose');
  const entries = usable.map(({ jwk, key }) => {
    // Providers publish one key several times: for each algorithm, or under two ids.
    const thumbprint = key.export({ type: 'spki', format: 'der' }).toString('base64');
    return { kid: jwk.kid, thumbprint, getKey: createLocalJWKSet({ keys: [jwk] }) };
  });
  const isAlone = usable.every(({ jwk, key }) => jwk.kid === undefined && usable[0]?.key.equals(key));
  return {
    keys: usable.map(({ key }) => key),
    kids: isAlone ? [] : [...new Set(entries.map(({ kid }) => kid ?? 'none'))],
    fitting: async ({ alg, kid }) => {
      const fitting = new Map<string, CryptoKey>();
      for (const entry of entries.filter((one) => isAlone || kid === undefined || one.kid === kid)) {
        // jose compares `alg`, key type, curve, `use` and `key_ops`.
        await entry.getKey({ alg }).then(
          (key) => fitting.set(entry.thumbprint, key),
          () => undefined,
        );
      }
      return [...fitting.values()];
    },
  };
}

/** RSA keys need 2048 bits (RFC 7518 §3.3). Node reports length 0 for a modulus that it cannot read. */
function usableKey(published: unknown): { jwk: JWK; key: KeyObject } | undefined {
  const jwk = parseJwk(published);
  if (jwk === undefined || jwk.kty === 'oct' || jwk.d !== undefined || !isShort(jwk.n) || !isShort(jwk.e)) {
    return undefined;
  }
  // A key for encryption beside it leaves a signing key without `kid` alone.
  if ((jwk.use ?? 'sig') !== 'sig') {
    return undefined;
  }
  const key = importKey(jwk, createPublicKey);
  const isLong = (key?.asymmetricKeyDetails?.modulusLength ?? 2048) >= 2048;
  return key !== undefined && isLong ? { jwk, key } : undefined;
}

/** The time to import an exponent grows with the square of its length: 95 KB take a second. */
function isShort(member: unknown): boolean {
  return typeof member !== 'string' || member.length <= LONGEST_MEMBER;
}
