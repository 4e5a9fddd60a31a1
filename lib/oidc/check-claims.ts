import { createHash } from 'node:crypto';
import type { JWTPayload } from 'jose';
import { isRecord } from '../model/json-values.js';
import type { LoginSettings } from '../config/tenant-settings.js';
import type { Refusal } from '../config/problems/problem.interface.js';

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
    return wrongType('an ID token', claims, typ);
  }
  if (!isText(claims.sub)) {
    return { reason: 'subject', expected: 'sub as text', received: `sub ${formOf(claims.sub)}` };
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
  const time = timesFailure(claims, clockTolerance, now);
  if (time !== undefined) {
    return time;
  }
  if (nonce !== undefined && claims['nonce'] !== nonce) {
    // It is a secret of its browser.
    return { reason: 'nonce', expected: 'the nonce of this login', received: formOf(claims['nonce']) };
  }
  if (maxAge === undefined || isRecent(claims['auth_time'], maxAge, clockTolerance, now)) {
    return undefined;
  }
  return {
    reason: 'auth_time',
    option: 'login.maxAge',
    expected: `auth_time at most ${maxAge} s ago`,
    received: `auth_time ${timeOf(claims['auth_time'])}`,
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
    return differs('audience', 'login.audience.accessToken', 'aud', expected.audience, claims);
  }
  if (looksLikeIdToken(claims, typ) || isLogoutToken(claims, typ)) {
    return wrongType('an access token', claims, typ);
  }
  const name = partyClaimOf(claims);
  const { authorizedParties } = expected;
  if (authorizedParties?.some((allowed) => allowed === claims[name]) === false) {
    return differs('audience', 'login.authorizedParties', name, authorizedParties.join(' or '), claims);
  }
  if (!isText(claims.sub)) {
    return { reason: 'subject', expected: 'sub as text', received: `sub ${formOf(claims.sub)}` };
  }
  return timeFailure(claims, expected.clockTolerance, now);
}

/** The claim that names the client of an access token. Not all providers send `azp` (RFC 9068 §2.2, Okta, Entra ID). */
export function partyClaimOf(claims: JWTPayload): string {
  return (
    ['azp', 'client_id', 'cid', 'appid'].find((name) => (claims[name] ?? undefined) !== undefined) ?? 'azp'
  );
}

/** A member of a token that is not what the option says. */
export function differs(
  reason: Refusal['reason'],
  option: string,
  name: string,
  expected: string,
  members: Record<string, unknown>,
): Refusal {
  return { reason, option, expected: `${name} ${expected}`, received: `${name} ${described(members[name])}` };
}

/** Of the claims by which kinds of tokens are told apart, those that are there. */
export function wrongType(expected: string, claims: JWTPayload, typ: string | undefined): Refusal {
  const names = [...ID_TOKEN_NAMES, 'events', 'jti'].filter((name) => claims[name] !== undefined);
  return { reason: 'token_type', expected, received: `typ ${described(typ)}, claims ${names.join(', ')}` };
}

/** The `typ` of a header, by default `jwt`. Letter case and `application/` make no difference (RFC 7515 §4.1.9). */
export function mediaTypeOf(typ: string | undefined): string {
  return String(typ ?? 'jwt')
    .replace(/^application\//i, '')
    .toLowerCase();
}

const ID_TOKEN_NAMES = ['nonce', 'at_hash', 'c_hash', 's_hash'];

/** True for a token with a nonce or the hash of another token, unless its `typ` says that it is an access token (RFC 9068 §2.1). */
function looksLikeIdToken(claims: JWTPayload, typ: string | undefined): boolean {
  return mediaTypeOf(typ) !== 'at+jwt' && ID_TOKEN_NAMES.some((name) => claims[name] !== undefined);
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
export function timesFailure(claims: JWTPayload, tolerance: number, now: number): Refusal | undefined {
  return (
    timeFailure(claims, tolerance, now) ??
    (claims.iat === undefined ? wrongTime('issued', undefined, claims) : undefined)
  );
}

/** Why a token is refused by its times. `iat` and `nbf` may be absent, `exp` may not. In seconds. */
function timeFailure(claims: JWTPayload, tolerance: number, now: number): Refusal | undefined {
  const { exp, iat, nbf } = claims;
  if (!isTime(exp) || exp <= now - tolerance) {
    return wrongTime('expired', exp, claims);
  }
  const isValid = (time: unknown): boolean => time === undefined || (isTime(time) && time <= now + tolerance);
  const wrong = [iat, nbf].find((time) => !isValid(time));
  return wrong === undefined ? undefined : wrongTime('issued', wrong, claims);
}

/** Only a time that is a number may be due to the clock. */
function wrongTime(reason: 'expired' | 'issued', time: unknown, { iat, nbf, exp }: JWTPayload): Refusal {
  return {
    reason,
    ...(isTime(time) ? { option: 'login.clockTolerance' } : {}),
    expected: 'a token of now, by the clock of this host',
    received: `iat ${timeOf(iat)}, nbf ${timeOf(nbf)}, exp ${timeOf(exp)}`,
  };
}

function timeOf(value: unknown): string {
  return isTime(value) ? String(value) : formOf(value);
}

/** A claim in the operator's log. It may have any type: what is no text must not look like the text that is expected. */
export function described(value: unknown): string {
  if (Array.isArray(value) && value.length > 1) {
    return value.map(described).join(' or ');
  }
  const shown = isText(value) ? value : (JSON.stringify(value) ?? 'none');
  return typeof value === 'number' ? `number ${shown}` : shown;
}

/** A claim whose text must not be shown. */
export function formOf(value: unknown): string {
  if (Array.isArray(value)) {
    return `a list of ${new Set(value).size} different values`;
  }
  return isText(value) ? 'another text' : described(value);
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
