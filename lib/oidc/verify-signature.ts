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
  const [header = '', claims = ''] = token.split('.', 2);
  return parseRecord(Buffer.from(part === 'header' ? header : claims, 'base64url'));
}
