import type { CompactJWSHeaderParameters, CompactVerifyGetKey, JWTPayload } from 'jose';
import { LoginFailedError } from '../errors/login-failed.error.js';
import { isRecord } from '../model/json-values.js';
import { parseJson } from '../transport/wire/reply-body.js';

export interface VerifiedToken {
  header: CompactJWSHeaderParameters;
  payload: JWTPayload;
}

const WRONG_ALGORITHM = 'the token is signed with an algorithm that is not accepted';

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
  // Loading jose takes 30 ms of CPU time, so it is done when it is first needed.
  const { compactVerify, errors } = await import('jose');
  try {
    const { payload, protectedHeader } = await compactVerify(token, key, { algorithms: [...algorithms] });
    const claims = parseJson(payload);
    if (isRecord(claims)) {
      return { header: protectedHeader, payload: claims };
    }
  } catch (error) {
    if (error instanceof errors.JOSEAlgNotAllowed) {
      throw new LoginFailedError('algorithm', WRONG_ALGORITHM);
    }
  }
  throw new LoginFailedError('signature', 'the token is not signed by a key of the provider');
}

/**
 * The header of a token that is not verified yet. A token that no key could verify is refused here, so that it makes nobody
 * fetch keys.
 *
 * @throws {LoginFailedError} `signature` where the header is unreadable, `algorithm` where that is not listed
 */
export function checkHeader(token: string, algorithms: readonly string[]): { kid: string | undefined } {
  const { alg, kid } = unverified(token, 'header');
  if (typeof alg !== 'string' || (kid !== undefined && typeof kid !== 'string')) {
    throw new LoginFailedError('signature', 'the token has no readable header');
  }
  if (!algorithms.includes(alg)) {
    throw new LoginFailedError('algorithm', WRONG_ALGORITHM);
  }
  return { kid };
}

/**
 * The header or the claims of a JWT that is not verified yet. They only select what verifies it. Empty where they are
 * unreadable. Synchronous, and without jose, which is loaded with the first verification.
 */
export function unverified(token: string, part: 'header' | 'claims'): Record<string, unknown> {
  // An encrypted token has five parts, of which only the header is readable.
  const parts = token.split('.', 6);
  const isComplete = parts.length === 3 || (parts.length === 5 && part === 'header');
  const text = parts[part === 'header' ? 0 : 1] ?? '';
  const bytes = Buffer.from(text, 'base64url');
  // Buffer ignores what is not base64url, so that the encoded form must be compared.
  if (!isComplete || bytes.toString('base64url') !== text) {
    return {};
  }
  try {
    const value = parseJson(bytes);
    return isRecord(value) ? value : {};
  } catch {
    return {};
  }
}
