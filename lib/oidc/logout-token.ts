import type { JWTPayload } from 'jose';
import { isRecord } from '../model/json-values.js';
import type { LoginSettings } from '../options/tenant-settings.js';
import type { Refusal } from '../problems/problem.interface.js';
import { described, isText, logoutEventOf, mediaTypeOf, requiredTimesFailure } from './check-claims.js';

/** Why a logout token is refused; `undefined` where it is valid. Rules of OpenID Connect Back-Channel Logout 1.0 §2.6. */
export function logoutTokenFailure(
  claims: JWTPayload,
  typ: string | undefined,
  expected: Pick<LoginSettings, 'issuer' | 'clientId' | 'clockTolerance'>,
  now: number,
): Refusal | undefined {
  if (!isAddressedTo(claims, expected.issuer, expected.clientId)) {
    return {
      reason: 'audience',
      option: 'login.clientId',
      expected: `aud ${described(expected.clientId)}`,
      received: `aud ${described(claims.aud)}`,
    };
  }
  if (
    !['logout+jwt', 'jwt'].includes(mediaTypeOf(typ)) ||
    !isRecord(logoutEventOf(claims)) ||
    !isText(claims.jti)
  ) {
    return { reason: 'token_type' };
  }
  if (claims['nonce'] !== undefined) {
    return { reason: 'nonce' };
  }
  const names = [claims.sub, claims['sid']].filter((name) => name !== undefined);
  if (names.length === 0 || !names.every(isText)) {
    return { reason: 'subject' };
  }
  return requiredTimesFailure(claims, expected.clockTolerance, now);
}

/** True where a token has this issuer and, as its only audience, this client. */
export function isAddressedTo({ iss, aud }: JWTPayload, issuer: string, clientId?: string): boolean {
  const audience = Array.isArray(aud) && aud.length === 1 ? aud[0] : aud;
  return iss === issuer && clientId !== undefined && audience === clientId;
}
