import { hmacSigned, KEYS, unsigned } from '../support/provider-keys.js';
import type { Claims } from '../support/provider-script.js';
import { CLIENT_ID } from '../support/provider.js';
import type { TokenCase } from './flows.js';

const now = (): number => Math.floor(Date.now() / 1000);
const set = (members: Claims | (() => Claims)) => ({
  claims: (claims: Claims) => void Object.assign(claims, typeof members === 'function' ? members() : members),
});
const without = (name: string) => ({ claims: (claims: Claims) => void delete claims[name] });

/** OIDC Core §3.1.3.7, claim by claim. The clock tolerance is 30 s. */
const claims: readonly TokenCase[] = [
  {
    id: '-invalid-iss',
    what: 'iss of another issuer',
    reason: 'issuer',
    token: set({ iss: 'https://other.example' }),
  },
  { what: 'no iss', reason: 'issuer', token: without('iss') },
  {
    what: 'iss with a slash more',
    reason: 'issuer',
    token: { claims: (all) => void (all['iss'] = `${String(all['iss'])}/`) },
  },
  { id: '-missing-sub', what: 'no sub', reason: 'subject', token: without('sub') },
  { what: 'an empty sub', reason: 'subject', token: set({ sub: '' }) },
  { what: 'a sub that is a number', reason: 'subject', token: set({ sub: 7 }) },
  { id: '-invalid-aud', what: 'aud of another client', reason: 'audience', token: set({ aud: 'other-web' }) },
  { id: '-missing-aud', what: 'no aud', reason: 'audience', token: without('aud') },
  { what: 'aud as an empty list', reason: 'audience', token: set({ aud: [] }) },
  {
    what: 'a further audience and no azp',
    reason: 'audience',
    token: set({ aud: [CLIENT_ID, 'other-web'] }),
  },
  {
    what: 'a further audience and its azp',
    reason: 'audience',
    token: set({ aud: [CLIENT_ID, 'other-web'], azp: 'other-web' }),
  },
  { what: 'azp of another client', reason: 'audience', token: set({ azp: 'other-web' }) },
  { what: 'an audience that is not text', reason: 'audience', token: set({ aud: [CLIENT_ID, 7] }) },
  { id: '-missing-iat', what: 'no iat', reason: 'issued', token: without('iat') },
  { what: 'issued in the future', reason: 'issued', token: set(() => ({ iat: now() + 60 })) },
  { what: 'iat as text', reason: 'issued', token: set(() => ({ iat: String(now()) })) },
  { what: 'not valid before the future', reason: 'issued', token: set(() => ({ nbf: now() + 60 })) },
  { what: 'expired a minute ago', reason: 'expired', token: set(() => ({ exp: now() - 60 })) },
  { what: 'no exp', reason: 'expired', token: without('exp') },
  { what: 'exp as text', reason: 'expired', token: set(() => ({ exp: String(now() + 300) })) },
  { id: '-nonce-invalid', what: 'another nonce', reason: 'nonce', token: set({ nonce: 'of-another-login' }) },
  { what: 'no nonce', reason: 'nonce', token: without('nonce') },
];

const MAX_AGE = { maxAge: 60 };

const authenticationTime: readonly TokenCase[] = [
  { what: 'maxAge and no auth_time', reason: 'auth_time', token: without('auth_time'), login: MAX_AGE },
  {
    what: 'maxAge and an authentication too long ago',
    reason: 'auth_time',
    token: set(() => ({ auth_time: now() - 120 })),
    login: MAX_AGE,
  },
  {
    what: 'maxAge and an authentication in the future',
    reason: 'auth_time',
    token: set(() => ({ auth_time: now() + 120 })),
    login: MAX_AGE,
  },
  {
    what: 'maxAge and auth_time as text',
    reason: 'auth_time',
    token: set(() => ({ auth_time: String(now()) })),
    login: MAX_AGE,
  },
];

const altered = (_payload: string, token: string): string => {
  const end = token.lastIndexOf('.') + 10;
  return `${token.slice(0, end)}${token[end] === 'A' ? 'B' : 'A'}${token.slice(end + 1)}`;
};

const signatures: readonly TokenCase[] = [
  {
    id: '-idtoken-sig-none',
    what: 'no signature at all',
    reason: 'algorithm',
    token: { write: unsigned },
  },
  {
    what: 'an algorithm that is not on the list',
    reason: 'algorithm',
    token: { key: { ...KEYS.rs256, alg: 'RS512' } },
  },
  {
    what: 'HS256 with the public key as its secret',
    reason: 'algorithm',
    token: { write: (payload) => hmacSigned(payload, KEYS.rs256.pem, KEYS.rs256.kid) },
  },
  {
    // A MAC is never accepted, so it is refused before it is computed.
    id: '-invalid-sig-hs256',
    what: 'HS256 with an unknown secret',
    reason: 'algorithm',
    token: { write: (payload) => hmacSigned(payload, 'a secret nobody knows') },
  },
  {
    id: '-invalid-sig-rs256',
    what: 'RS256, the signature altered',
    reason: 'signature',
    token: { write: altered },
  },
  {
    what: 'RS256 by the key of an attacker under a known kid',
    reason: 'signature',
    token: { key: { ...KEYS.attacker, kid: KEYS.rs256.kid } },
  },
  {
    what: 'RS256 by the key of an attacker under a kid of its own',
    reason: 'signature',
    token: { key: KEYS.attacker },
  },
  {
    what: 'RS256 by a key that the token brings along',
    reason: 'signature',
    token: { key: KEYS.attacker, header: { jwk: KEYS.attacker.jwk } },
  },
  {
    id: '-invalid-sig-es256',
    what: 'ES256 by the key of an attacker',
    reason: 'signature',
    token: { key: { ...KEYS.attackerEs, kid: KEYS.es256.kid } },
  },
  {
    id: '-kid-absent-multiple-jwks',
    what: 'no kid and two possible keys',
    reason: 'signature',
    token: { header: { kid: undefined } },
    login: { keys: { keys: [KEYS.attacker.jwk, KEYS.rs256.jwk] } },
  },
  {
    what: 'an unknown critical header',
    reason: 'signature',
    token: { write: (_payload, token) => withHeader(token, { crit: ['unheard-of'], 'unheard-of': true }) },
  },
  {
    what: 'an access token for an ID token',
    reason: 'token_type',
    token: { header: { typ: 'at+jwt' } },
  },
  { what: 'no JWT', reason: 'signature', token: { write: () => 'no-jwt' } },
  { what: 'five parts', reason: 'signature', token: { write: (_payload, token) => `${token}.a.b` } },
];

function withHeader(token: string, more: Claims): string {
  const [header = '', ...rest] = token.split('.');
  const read = JSON.parse(Buffer.from(header, 'base64url').toString()) as Claims;
  return [Buffer.from(JSON.stringify({ ...read, ...more })).toString('base64url'), ...rest].join('.');
}

/** Changes of any ID token. */
export const ID_TOKEN_CASES: readonly TokenCase[] = [...claims, ...authenticationTime, ...signatures];

/** Changes of the ID token for the code, which has the claims of the person. */
export const PERSON_CASES: readonly TokenCase[] = [
  { what: 'an unverified address', reason: 'email_unverified', token: set({ email_verified: false }) },
  {
    what: 'an unverified address, as text',
    reason: 'email_unverified',
    token: set({ email_verified: 'false' }),
  },
];
