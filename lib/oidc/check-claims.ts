import { createHash } from 'node:crypto';
import type { JWTPayload } from 'jose';
import { isRecord } from '../model/json-values.js';
import type { LoginSettings } from '../options/tenant-settings.js';
import type { Refusal } from '../problems/problem.interface.js';

/** What the tokens of a login must fit. Times are in seconds; points in time since 1970. */
type Expectation = Pick<LoginSettings, 'clockTolerance'> & { audience: string };

/** Why a token of any kind is refused by its issuer, which is compared character by character. It is checked first. */
export function issuerFailure({ iss }: JWTPayload, issuer: string): Refusal | undefined {
  return iss === issuer
    ? undefined
    : { reason: 'issuer', option: 'login.issuer', expected: issuer, received: described(iss) };
}

/** Why an ID token is refused at this time; `undefined` where it is valid. Rules and order of OIDC Core §3.1.3.7. */
export function idTokenFailure(
  claims: JWTPayload,
  typ: string | undefined,
  expected: Expectation & { clientId: string; nonce?: string; maxAge?: number },
  now: number,
): Refusal | undefined {
  if (mediaTypeOf(typ) === 'at+jwt' || isLogoutToken(claims, typ)) {
    return { reason: 'token_type' };
  }
  if (!isText(claims.sub)) {
    return { reason: 'subject' };
  }
  if (!fitsAudience(claims, expected)) {
    return {
      reason: 'audience',
      option: expected.audience === expected.clientId ? 'login.clientId' : 'login.audience',
      expected: `aud ${expected.audience}, azp ${expected.clientId}`,
      received: `aud ${described(claims.aud)}, azp ${described(claims['azp'])}`,
    };
  }
  const { nonce, maxAge, clockTolerance } = expected;
  const time = requiredTimesFailure(claims, clockTolerance, now);
  if (time !== undefined) {
    return time;
  }
  if (nonce !== undefined && claims['nonce'] !== nonce) {
    return { reason: 'nonce' };
  }
  if (maxAge === undefined || isRecent(claims['auth_time'], maxAge, clockTolerance, now)) {
    return undefined;
  }
  return {
    reason: 'auth_time',
    option: 'login.maxAge',
    expected: `auth_time at most ${maxAge} s ago`,
    received: `auth_time ${described(claims['auth_time'])}`,
  };
}

/** Why a user's access token is refused. Rules of RFC 9068 §4, without its `typ`, which not all providers set. */
export function accessTokenFailure(
  claims: JWTPayload,
  typ: string | undefined,
  expected: Expectation & Pick<LoginSettings, 'authorizedParties'>,
  now: number,
): Refusal | undefined {
  if (!audiencesOf(claims)?.includes(expected.audience)) {
    return {
      reason: 'audience',
      option: 'login.audience.accessToken',
      expected: `aud ${expected.audience}`,
      received: `aud ${described(claims.aud)}`,
    };
  }
  if (looksLikeIdToken(claims, typ) || isLogoutToken(claims, typ)) {
    return { reason: 'token_type' };
  }
  const party = claims['azp'] ?? claims['client_id'];
  const { authorizedParties } = expected;
  if (authorizedParties !== undefined && !authorizedParties.some((allowed) => allowed === party)) {
    return {
      reason: 'audience',
      option: 'login.authorizedParties',
      expected: `azp ${described(authorizedParties)}`,
      received: `azp ${described(party)}`,
    };
  }
  if (!isText(claims.sub)) {
    return { reason: 'subject' };
  }
  return timeFailure(claims, expected.clockTolerance, now);
}

/** The `typ` of a header, by default `jwt`. Letter case and `application/` make no difference (RFC 7515 §4.1.9). */
export function mediaTypeOf(typ: string | undefined): string {
  return String(typ ?? 'jwt')
    .replace(/^application\//i, '')
    .toLowerCase();
}

/** True for a token with a nonce or the hash of another token, unless its `typ` says that it is an access token (RFC 9068 §2.1). */
function looksLikeIdToken(claims: JWTPayload, typ: string | undefined): boolean {
  const names = ['nonce', 'at_hash', 'c_hash', 's_hash'];
  return mediaTypeOf(typ) !== 'at+jwt' && names.some((name) => claims[name] !== undefined);
}

/** Several audiences require `azp`, and `azp` must be this client (OIDC Core §3.1.3.7 rules 3 to 5). */
function fitsAudience(claims: JWTPayload, expected: Expectation & { clientId: string }): boolean {
  const audiences = audiencesOf(claims);
  if (!audiences?.includes(expected.audience)) {
    return false;
  }
  const azp = claims['azp'];
  return azp === undefined ? audiences.length === 1 : azp === expected.clientId;
}

function audiencesOf({ aud }: JWTPayload): readonly string[] | undefined {
  const audiences = typeof aud === 'string' ? [aud] : aud;
  return Array.isArray(audiences) && audiences.every((name) => typeof name === 'string')
    ? audiences
    : undefined;
}

/** As {@link timeFailure}, where `iat` is required. */
export function requiredTimesFailure(
  claims: JWTPayload,
  tolerance: number,
  now: number,
): Refusal | undefined {
  return (
    timeFailure(claims, tolerance, now) ??
    (claims.iat === undefined ? wrongTime('issued', claims) : undefined)
  );
}

/** Why a token is refused by its times. `iat` and `nbf` may be absent, `exp` may not. In seconds. */
function timeFailure(claims: JWTPayload, tolerance: number, now: number): Refusal | undefined {
  const { exp, iat, nbf } = claims;
  if (!isTime(exp) || exp <= now - tolerance) {
    return wrongTime('expired', claims);
  }
  const isValid = [iat, nbf].every((time) => time === undefined || (isTime(time) && time <= now + tolerance));
  return isValid ? undefined : wrongTime('issued', claims);
}

function wrongTime(reason: 'expired' | 'issued', { iat, nbf, exp }: JWTPayload): Refusal {
  return {
    reason,
    option: 'login.clockTolerance',
    expected: 'a token of now, by the clock of this host',
    received: `iat ${described(iat)}, nbf ${described(nbf)}, exp ${described(exp)}`,
  };
}

/** A claim in the operator's log. It may have any type. */
export function described(value: unknown): string {
  if (value === undefined) {
    return 'none';
  }
  const values: unknown[] = Array.isArray(value) ? value : [value];
  const shown = values.map((one) => (typeof one === 'string' || typeof one === 'number' ? one : typeof one));
  return shown.join(' or ');
}

function isRecent(authTime: unknown, maxAge: number, tolerance: number, now: number): boolean {
  return isTime(authTime) && authTime >= now - maxAge - tolerance && authTime <= now + tolerance;
}

function isTime(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}

export function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

/** True where a claim is the left half of this value's hash, by the hash function of the algorithm (OIDC Core §3.3.2.11). */
export function hashFits(claim: unknown, value: string, algorithm: string): boolean {
  // `EdDSA` and `Ed25519` name no hash function: Ed25519 uses SHA-512.
  const bits = /(256|384|512)$/.exec(algorithm)?.[1] ?? '512';
  const digest = createHash(`sha${bits}`).update(value).digest();
  return claim === digest.subarray(0, digest.length / 2).toString('base64url');
}

/** Member of the claim `events` of a logout token (OpenID Connect Back-Channel Logout 1.0 §2.4). */
const LOGOUT_EVENT = 'http://schemas.openid.net/event/backchannel-logout';

/** The value of the logout event in the claim `events`; `undefined` where there is none. */
export function logoutEventOf({ events }: Record<string, unknown>): unknown {
  return isRecord(events) ? events[LOGOUT_EVENT] : undefined;
}

/** True for a logout token, which has the issuer, audience and key of an ID token. All validations of other tokens refuse it. */
function isLogoutToken(claims: JWTPayload, typ: string | undefined): boolean {
  return mediaTypeOf(typ) === 'logout+jwt' || logoutEventOf(claims) !== undefined;
}
