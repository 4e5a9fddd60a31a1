import { createPublicKey, KeyObject } from 'node:crypto';
import type { CompactVerifyGetKey, CryptoKey, JWK } from 'jose';
import { LoginFailedError } from '../errors/login-failed.error.js';
import { isRecord } from '../model/json-values.js';
import { isJwk, MOST_KEYS } from '../options/key-source.js';

/** Characters of a modulus or exponent of 16,384 bits, in base64url. OpenSSL verifies with none that is longer. */
const LONGEST_MEMBER = 2_731;

export interface KeySet {
  readonly kids: ReadonlySet<string | undefined>;
  /** A key is imported when a token first asks for it, once per set: to import one of P-521 takes a millisecond. */
  readonly getKey: CompactVerifyGetKey;
}

/**
 * The public signature keys of a JWKS. Unknown, unreadable, short, giant, symmetric and private keys are passed over, so that one bad
 * key does not make every login fail.
 *
 * @throws {LoginFailedError} `provider` where it is no JWKS, has more than {@link MOST_KEYS} keys, or has no usable key
 */
export async function keySetOf(jwks: unknown): Promise<KeySet> {
  const published: unknown[] = isRecord(jwks) && Array.isArray(jwks['keys']) ? jwks['keys'] : [];
  if (published.length > MOST_KEYS) {
    throw new LoginFailedError('provider', `the provider publishes more than ${MOST_KEYS} keys`);
  }
  const keys = published.filter(isPublic);
  if (!keys.some(isUsable)) {
    throw new LoginFailedError('provider', 'the provider publishes no usable signing key');
  }
  const { createLocalJWKSet, errors } = await import('jose');
  const find = createLocalJWKSet({ keys });
  /** Choices among several keys that fit a header: an unusable one is imported in vain, and that is not done again. */
  const choices = new Map<string, Promise<CryptoKey>>();
  const getKey: CompactVerifyGetKey = async (header, token) => {
    try {
      return await find(header, token);
    } catch (error) {
      if (!(error instanceof errors.JWKSMultipleMatchingKeys)) {
        throw error;
      }
      const name = JSON.stringify([header.alg, header.kid]);
      const choice = choices.get(name) ?? onlyUsable(error);
      choices.set(name, choice);
      return choice;
    }
  };
  return { kids: new Set(keys.map(({ kid }) => kid)), getKey };
}

/** The only usable key of several; fails with `several` where more than one is usable, or none. */
async function onlyUsable(several: Error & AsyncIterable<CryptoKey>): Promise<CryptoKey> {
  let only: CryptoKey | undefined;
  for await (const key of several) {
    if (isLongEnough(KeyObject.from(key))) {
      if (only !== undefined) {
        throw several;
      }
      only = key;
    }
  }
  if (only === undefined) {
    throw several;
  }
  return only;
}

function isPublic(key: unknown): key is JWK {
  return isJwk(key) && key.kty !== 'oct' && key.d === undefined && isShort(key.n) && isShort(key.e);
}

/** The time to import an exponent grows with the square of its length: 95 KB take a second. */
function isShort(member: unknown): boolean {
  return typeof member !== 'string' || member.length <= LONGEST_MEMBER;
}

function isUsable(key: JWK): boolean {
  try {
    return isLongEnough(createPublicKey({ key, format: 'jwk' }));
  } catch {
    return false;
  }
}

/** RSA keys need 2048 bits (RFC 7518 §3.3). Node reads an unreadable modulus as one of length 0. */
function isLongEnough({ asymmetricKeyDetails }: KeyObject): boolean {
  return (asymmetricKeyDetails?.modulusLength ?? 2048) >= 2048;
}
