import type { CompactJWSHeaderParameters, CompactVerifyGetKey, JWTPayload } from 'jose';
import { isRecord } from '../model/json-values.js';
import { parseJson, parseRecord } from '../transport/wire/reply-body.js';

export interface VerifiedToken {
  header: CompactJWSHeaderParameters;
  payload: JWTPayload;
}

/** A JWT whose signature the key verifies; `undefined` for any other. `none` and MACs are never among the algorithms. */
export async function verifyToken(
  token: string,
  key: CompactVerifyGetKey,
  algorithms: readonly string[],
): Promise<VerifiedToken | undefined> {
  // Loading jose takes 30 ms of CPU time, so it is done when it is first needed.
  const { compactVerify } = await import('jose');
  try {
    const { payload, protectedHeader } = await compactVerify(token, key, { algorithms: [...algorithms] });
    const claims = parseJson(payload);
    return isRecord(claims) ? { header: protectedHeader, payload: claims } : undefined;
  } catch {
    return undefined;
  }
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
