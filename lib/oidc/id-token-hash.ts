import { createHash, timingSafeEqual } from 'node:crypto';

/**
 * `c_hash` and `at_hash`: the left half of the hash of the value, with the hash of the ID token's algorithm
 * (OIDC Core §3.3.2.11). EdDSA hashes with SHA-512.
 */
export function halfHash(value: string, algorithm: string): string {
  const bits = /(256|384|512)$/.exec(algorithm)?.[1] ?? '512';
  const digest = createHash(`sha${bits}`).update(value).digest();
  return digest.subarray(0, digest.length / 2).toString('base64url');
}

/** Whether a hash claim fits the value. */
export function hashFits(claim: unknown, value: string, algorithm: string): boolean {
  if (typeof claim !== 'string') {
    return false;
  }
  const expected = Buffer.from(halfHash(value, algorithm));
  const seen = Buffer.from(claim);
  return seen.length === expected.length && timingSafeEqual(seen, expected);
}
