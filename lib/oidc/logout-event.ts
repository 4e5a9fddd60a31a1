import type { JWTPayload } from 'jose';
import { isRecord } from '../model/json-values.js';

/** Member of the claim `events` of a logout token (OpenID Connect Back-Channel Logout 1.0 §2.4). */
const LOGOUT_EVENT = 'http://schemas.openid.net/event/backchannel-logout';

/** The value of the logout event in the claim `events`; `undefined` where there is none. */
export function logoutEventOf({ events }: Record<string, unknown>): unknown {
  return isRecord(events) && Object.hasOwn(events, LOGOUT_EVENT) ? events[LOGOUT_EVENT] : undefined;
}

/** True for `logout+jwt`, which is no other token. */
export function isLogoutTokenType(typ: string | undefined): boolean {
  return /^(application\/)?logout\+jwt$/i.test(typ ?? '');
}

/**
 * True for a logout token. Its issuer and audience are those of an ID token, and its key is the same. All validations of other
 * tokens refuse it.
 */
export function isLogoutToken(claims: JWTPayload, typ: string | undefined): boolean {
  return isLogoutTokenType(typ) || logoutEventOf(claims) !== undefined;
}
