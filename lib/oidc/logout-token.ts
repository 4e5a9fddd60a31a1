import type { JWTPayload } from 'jose';
import { isRecord } from '../model/json-values.js';
import type { LoginSettings } from '../config/tenant-settings.js';
import type { Refusal } from '../config/problems/problem.interface.js';
import { differs, isText, logoutEventOf, mediaTypeOf, timesFailure, wrongType } from './check-claims.js';

/** Why a logout token is refused; `undefined` where it is valid. Rules of OpenID Connect Back-Channel Logout 1.0 §2.6. */
export function logoutTokenFailure(
  claims: JWTPayload,
  typ: string | undefined,
  expected: Pick<LoginSettings, 'issuer' | 'clientId' | 'clockTolerance'>,
  now: number,
): Refusal | undefined {
  if (!isAddressedTo(claims, expected.issuer, expected.clientId)) {
    return differs('audience', 'login.clientId', 'aud', expected.clientId ?? '', claims);
  }
  const isLogout = ['logout+jwt', 'jwt'].includes(mediaTypeOf(typ)) && isRecord(logoutEventOf(claims));
  if (!isLogout || !isText(claims.jti)) {
    return wrongType('a logout token with a logout event and a jti', claims, typ);
  }
  if (claims['nonce'] !== undefined) {
    return { reason: 'nonce', expected: 'no nonce', received: 'a nonce' };
  }
  const names = [claims.sub, claims['sid']].filter((name) => name !== undefined);
  if (names.length === 0 || !names.every(isText)) {
    const received = `sub ${typeof claims.sub}, sid ${typeof claims['sid']}`;
    return { reason: 'subject', expected: 'sub or sid, each as text that is not empty', received };
  }
  return timesFailure(claims, expected.clockTolerance, now);
}

/** True where a token has this issuer and, as its only audience, this client. */
export function isAddressedTo({ iss, aud }: JWTPayload, issuer: string, clientId?: string): boolean {
  const audience = Array.isArray(aud) && aud.length === 1 ? aud[0] : aud;
  return iss === issuer && clientId !== undefined && audience === clientId;
}
