/** What the tokens of a login must fit: what jose checks, and what it does not. Times are in seconds since 1970. */
import type { JWTPayload } from 'jose';
import { described, formOf, timeOf } from '../config/problems/claim-text.js';
import type { Refusal } from '../config/problems/problem.interface.js';
import type { LoginSettings } from '../config/tenant-settings.js';
import { isRecord, isText } from '../model/json-values.js';

/** The rules for tokens of one use, beside `iss`, `exp` and `nbf`. */
export interface TokenRules {
  readonly audience: string;
  readonly audienceOption: string;
  /** The last one is looked for first. */
  readonly requiredClaims: string[];
  /** Why claims are refused that jose accepts. */
  readonly check: (claims: JWTPayload, typ: string | undefined, now: number) => Refusal | undefined;
}

/** What an ID token must fit beside the options. */
interface IdTokenFacts {
  clientId: string;
  audience: string;
  nonce: string | undefined;
  maxAge: number | undefined;
}

/** OIDC Core §3.1.3.7. */
export function idTokenRules({ clockTolerance }: LoginSettings, facts: IdTokenFacts): TokenRules {
  const { clientId, audience, nonce, maxAge } = facts;
  const audienceOption = audience === clientId ? 'login.clientId' : 'login.audience';
  return {
    audience,
    audienceOption,
    requiredClaims: ['iat', 'exp', 'sub'],
    check(claims, typ, now) {
      if (mediaTypeOf(typ) === 'at+jwt' || isLogoutToken(claims, typ)) {
        return wrongType('an ID token', claims, typ);
      }
      const { aud, azp, nonce: sent, auth_time: authTime } = claims;
      // Several audiences require `azp` (rules 3 to 5).
      if (azp === undefined ? [aud].flat().length !== 1 : azp !== clientId) {
        return differs('audience', audienceOption, 'azp', clientId, claims);
      }
      if (nonce !== undefined && sent !== nonce) {
        // It is a secret of its browser.
        return { reason: 'nonce', expected: 'the nonce of this login', received: formOf(sent) };
      }
      const age = typeof authTime === 'number' ? now - authTime : Number.NaN;
      if (maxAge !== undefined && !(age <= maxAge + clockTolerance && age >= -clockTolerance)) {
        const expected = `auth_time at most ${maxAge} s ago`;
        const received = `auth_time ${timeOf(authTime)}`;
        return { reason: 'auth_time', option: 'login.maxAge', expected, received };
      }
      return subjectRefusal(claims) ?? timeRefusal(claims, clockTolerance, now);
    },
  };
}

/** RFC 9068 §4, without `typ`, which not all providers set. */
export function accessTokenRules(login: LoginSettings, audience: string): TokenRules {
  const { clockTolerance, authorizedParties } = login;
  return {
    audience,
    audienceOption: 'login.audience.accessToken',
    requiredClaims: ['exp', 'sub'],
    check(claims, typ, now) {
      if (looksLikeIdToken(claims, typ) || isLogoutToken(claims, typ)) {
        return wrongType('an access token', claims, typ);
      }
      const name = partyClaimOf(claims);
      if (authorizedParties?.some((allowed) => allowed === claims[name]) === false) {
        return differs('audience', 'login.authorizedParties', name, authorizedParties.join(' or '), claims);
      }
      return subjectRefusal(claims) ?? timeRefusal(claims, clockTolerance, now);
    },
  };
}

/** OpenID Connect Back-Channel Logout 1.0 §2.6. */
export function logoutTokenRules({ issuer, clientId = '', clockTolerance }: LoginSettings): TokenRules {
  return {
    audience: clientId,
    audienceOption: 'login.clientId',
    requiredClaims: ['iat', 'exp'],
    check(claims, typ, now) {
      if (!isAddressedTo(claims, issuer, clientId)) {
        return differs('audience', 'login.clientId', 'aud', clientId, claims);
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
      return timeRefusal(claims, clockTolerance, now);
    },
  };
}

/** Why a token is refused that a key has signed, by the claim that jose names. */
export function refusalBy(claim: string, claims: JWTPayload, issuer: string, rules: TokenRules): Refusal {
  switch (claim) {
    case 'iss':
      return { reason: 'issuer', option: 'login.issuer', expected: issuer, received: described(claims.iss) };
    case 'aud':
      return differs('audience', rules.audienceOption, 'aud', rules.audience, claims);
    case 'sub':
      return wrongSubject(claims);
    default:
      return wrongTime(claim === 'exp' ? 'expired' : 'issued', claims[claim], claims);
  }
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

/** The claim that names the client of an access token. Not all providers send `azp` (RFC 9068 §2.2, Okta, Entra ID). */
export function partyClaimOf(claims: JWTPayload): string {
  return (
    ['azp', 'client_id', 'cid', 'appid'].find((name) => (claims[name] ?? undefined) !== undefined) ?? 'azp'
  );
}

/** True where a token has this issuer and, as its only audience, this client. */
export function isAddressedTo({ iss, aud }: JWTPayload, issuer: string, clientId = ''): boolean {
  const audience = Array.isArray(aud) && aud.length === 1 ? aud[0] : aud;
  return iss === issuer && clientId !== '' && audience === clientId;
}

function subjectRefusal(claims: JWTPayload): Refusal | undefined {
  return isText(claims.sub) ? undefined : wrongSubject(claims);
}

function wrongSubject({ sub }: JWTPayload): Refusal {
  return { reason: 'subject', expected: 'sub as text', received: `sub ${formOf(sub)}` };
}

/** jose does not look at an `iat` in the future, and takes 1e999 for a time. */
function timeRefusal(claims: JWTPayload, tolerance: number, now: number): Refusal | undefined {
  const { exp, iat } = claims;
  if (!Number.isFinite(exp)) {
    return wrongTime('expired', exp, claims);
  }
  const isPast = iat === undefined || (Number.isFinite(iat) && iat <= now + tolerance);
  return isPast ? undefined : wrongTime('issued', iat, claims);
}

/** Only a time that is a number may be due to the clock. */
function wrongTime(reason: 'expired' | 'issued', time: unknown, { iat, nbf, exp }: JWTPayload): Refusal {
  return {
    reason,
    ...(Number.isFinite(time) ? { option: 'login.clockTolerance' } : {}),
    expected: 'a token of now, by the clock of this host',
    received: `iat ${timeOf(iat)}, nbf ${timeOf(nbf)}, exp ${timeOf(exp)}`,
  };
}

const ID_TOKEN_NAMES = ['nonce', 'at_hash', 'c_hash', 's_hash'];

/** Of the claims by which kinds of tokens are told apart, those that are there. */
function wrongType(expected: string, claims: JWTPayload, typ: string | undefined): Refusal {
  const names = [...ID_TOKEN_NAMES, 'events', 'jti'].filter((name) => claims[name] !== undefined);
  return { reason: 'token_type', expected, received: `typ ${described(typ)}, claims ${names.join(', ')}` };
}

/** The `typ` of a header, by default `jwt`. Letter case and `application/` make no difference (RFC 7515 §4.1.9). */
function mediaTypeOf(typ: string | undefined): string {
  return String(typ ?? 'jwt')
    .replace(/^application\//i, '')
    .toLowerCase();
}

/** True for a token with a nonce or the hash of another token, unless its `typ` says that it is an access token (RFC 9068 §2.1). */
function looksLikeIdToken(claims: JWTPayload, typ: string | undefined): boolean {
  return mediaTypeOf(typ) !== 'at+jwt' && ID_TOKEN_NAMES.some((name) => claims[name] !== undefined);
}

/** Member of the claim `events` of a logout token (OpenID Connect Back-Channel Logout 1.0 §2.4). */
const LOGOUT_EVENT = 'http://schemas.openid.net/event/backchannel-logout';

function logoutEventOf({ events }: JWTPayload): unknown {
  return isRecord(events) ? events[LOGOUT_EVENT] : undefined;
}

/** A logout token has the issuer, audience and key of an ID token. All validations of other tokens refuse it. */
function isLogoutToken(claims: JWTPayload, typ: string | undefined): boolean {
  return mediaTypeOf(typ) === 'logout+jwt' || logoutEventOf(claims) !== undefined;
}
