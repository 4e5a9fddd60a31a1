import { importJWK, type JSONWebKeySet, type JWK } from 'jose';
import { LoginFailedError } from '../errors/login-failed.error.js';

/** Algorithm to try a key without `alg` with; importing only has to show that the key is readable. */
const ALGORITHM_BY_TYPE: Readonly<Record<string, string>> = { RSA: 'RS256', EC: 'ES256', OKP: 'EdDSA' };
const ALGORITHM_BY_CURVE: Readonly<Record<string, string>> = {
  'P-256': 'ES256',
  'P-384': 'ES384',
  'P-521': 'ES512',
};

/**
 * The public signature keys of a set; unknown, broken, symmetric and private ones are passed over, so that one bad
 * key does not lock everybody out.
 *
 * @throws {LoginFailedError} `provider` where it is no set, or nothing in it can be used
 */
export async function filterJwks(set: unknown): Promise<JSONWebKeySet> {
  const keys = candidates(set);
  const usable = (await Promise.all(keys.map(async (key) => ((await isUsable(key)) ? [key] : [])))).flat();
  if (usable.length === 0) {
    throw new LoginFailedError('provider', 'the provider publishes no usable signing key');
  }
  return { keys: usable };
}

function candidates(set: unknown): JWK[] {
  if (typeof set !== 'object' || set === null || !('keys' in set) || !Array.isArray(set.keys)) {
    return [];
  }
  return set.keys.filter(
    (key): key is JWK => typeof key === 'object' && key !== null && typeof key.kty === 'string',
  );
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
    const imported = await importJWK(key, algorithm);
    return !(imported instanceof Uint8Array) && isLongEnough(imported.algorithm);
  } catch {
    return false;
  }
}

/** Shorter RSA keys verify nothing (RFC 7518 §3.3), and Node imports an unreadable modulus as one of no length. */
function isLongEnough(algorithm: object): boolean {
  return !('modulusLength' in algorithm) || Number(algorithm.modulusLength) >= 2048;
}
