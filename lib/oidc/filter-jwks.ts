import type { JSONWebKeySet, JWK, LocalJWKSet } from 'jose';
import { LoginFailedError } from '../errors/login-failed.error.js';
import { isRecord } from '../model/json-values.js';

/** Algorithm to import a key without `alg`; the import only shows that the key is readable. */
const ALGORITHM_BY_TYPE: Readonly<Record<string, string>> = { RSA: 'RS256', EC: 'ES256', OKP: 'EdDSA' };
const ALGORITHM_BY_CURVE: Readonly<Record<string, string>> = {
  'P-256': 'ES256',
  'P-384': 'ES384',
  'P-521': 'ES512',
};

/**
 * The public signature keys of a JWKS. Unknown, unreadable, symmetric and private keys are removed, so that one bad key does
 * not make every login fail.
 *
 * @throws {LoginFailedError} `provider` where it is no JWKS, or has no usable key
 */
export async function filterJwks(jwks: unknown): Promise<JSONWebKeySet> {
  const keys = candidates(jwks);
  const isUsableKey = await Promise.all(keys.map(isUsable));
  const usable = keys.filter((_, index) => isUsableKey[index]);
  if (usable.length === 0) {
    throw new LoginFailedError('provider', 'the provider publishes no usable signing key');
  }
  return { keys: usable };
}

/** The keys, each of which is imported when it is first needed. */
export async function localKeys(jwks: JSONWebKeySet): Promise<LocalJWKSet> {
  const { createLocalJWKSet } = await import('jose');
  return createLocalJWKSet(jwks);
}

function candidates(jwks: unknown): JWK[] {
  if (!isRecord(jwks) || !Array.isArray(jwks['keys'])) {
    return [];
  }
  return jwks['keys'].filter((key): key is JWK => isRecord(key) && typeof key['kty'] === 'string');
}

async function isUsable(key: JWK): Promise<boolean> {
  if (key.d !== undefined || key.kty === 'oct') {
    return false;
  }
  const algorithm = key.alg ?? ALGORITHM_BY_CURVE[key.crv ?? ''] ?? ALGORITHM_BY_TYPE[key.kty ?? ''];
  if (algorithm === undefined) {
    return false;
  }
  try {
    const { importJWK } = await import('jose');
    const imported = await importJWK(key, algorithm);
    return !(imported instanceof Uint8Array) && isLongEnough(imported.algorithm);
  } catch {
    return false;
  }
}

/** RSA keys need 2048 bits (RFC 7518 §3.3). Node imports an unreadable modulus as one of length 0. */
function isLongEnough(algorithm: object): boolean {
  return !('modulusLength' in algorithm) || Number(algorithm.modulusLength) >= 2048;
}
