import {
  compactVerify,
  decodeProtectedHeader,
  errors,
  type CompactJWSHeaderParameters,
  type CompactVerifyGetKey,
  type JWTPayload,
} from 'jose';
import { LoginFailedError } from '../errors/login-failed.error.js';
import { isRecord } from '../model/json-values.js';

/** A token with a valid signature. */
export interface VerifiedToken {
  header: CompactJWSHeaderParameters;
  payload: JWTPayload;
}

/**
 * Verifies the signature of a JWT.
 *
 * @throws {LoginFailedError} `algorithm` for an algorithm that is not listed (`none` and MACs never are), else `signature`
 */
export async function verifyToken(
  token: string,
  key: CompactVerifyGetKey,
  algorithms: readonly string[],
): Promise<VerifiedToken> {
  try {
    const { payload, protectedHeader } = await compactVerify(token, key, { algorithms: [...algorithms] });
    const claims: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(payload));
    if (isRecord(claims)) {
      return { header: protectedHeader, payload: claims };
    }
  } catch (error) {
    if (error instanceof errors.JOSEAlgNotAllowed) {
      throw new LoginFailedError('algorithm', 'the token is signed with an algorithm that is not accepted');
    }
  }
  throw new LoginFailedError('signature', 'the token is not signed by a key of the provider');
}

/** Header of a token that is not verified yet. Its `kid` only selects one of the trusted keys. Empty where it is unreadable. */
export function headerOf(token: string): { alg?: unknown; kid?: unknown } {
  try {
    return decodeProtectedHeader(token);
  } catch {
    return {};
  }
}

/** True for a token that names no key: whether a key is missing shows only when none fits its signature. */
export function hasNoKeyId(token: string): boolean {
  try {
    return decodeProtectedHeader(token).kid === undefined;
  } catch {
    return false;
  }
}

/** `kid` of a token that is not verified yet. It only selects one of the trusted keys. */
export function keyIdOf(token: string): string | undefined {
  const { kid } = headerOf(token);
  return typeof kid === 'string' ? kid : undefined;
}
