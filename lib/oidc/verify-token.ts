import type { KeyObject } from 'node:crypto';
import {
  compactVerify,
  decodeProtectedHeader,
  errors,
  type CompactJWSHeaderParameters,
  type JWTPayload,
  type LocalJWKSet,
} from 'jose';
import { LoginFailedError } from '../errors/login-failed.error.js';

/** A token whose signature was verified. */
export interface VerifiedToken {
  header: CompactJWSHeaderParameters;
  payload: JWTPayload;
}

/**
 * Verifies the signature of a JWT.
 *
 * @throws {LoginFailedError} `algorithm` for one that is not listed (`none` and MACs never are), else `signature`
 */
export async function verifyToken(
  token: string,
  keys: KeyObject | LocalJWKSet,
  algorithms: readonly string[],
): Promise<VerifiedToken> {
  const options = { algorithms: [...algorithms] };
  try {
    const { payload, protectedHeader } =
      typeof keys === 'function'
        ? await compactVerify(token, keys, options)
        : await compactVerify(token, keys, options);
    const claims: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(payload));
    if (isClaims(claims)) {
      return { header: protectedHeader, payload: claims };
    }
  } catch (error) {
    if (error instanceof errors.JOSEAlgNotAllowed) {
      throw new LoginFailedError('algorithm', 'the token is signed with an algorithm that is not accepted');
    }
  }
  throw new LoginFailedError('signature', 'the token is not signed by a key of the provider');
}

/** `kid` of a token that is not verified yet: it only chooses among trusted keys. */
export function keyIdOf(token: string): string | undefined {
  try {
    return decodeProtectedHeader(token).kid;
  } catch {
    return undefined;
  }
}

function isClaims(value: unknown): value is JWTPayload {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
