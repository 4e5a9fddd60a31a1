import type { LoginFailureReason } from '../../lib/index.js';
import { hmacSigned, KEYS, unsigned } from '../support/provider-keys.js';
import {
  answers,
  changes,
  sends,
  set,
  without,
  type Claims,
  type ReplyChange,
  type Script,
  type TokenChange,
} from '../support/provider-script.js';
import { CLIENT_ID, type LoginOverrides, type ScriptedProvider } from '../support/provider.js';
import { Visitor } from '../support/visitor.js';
import type { Flow } from './flows.js';
import { toProvider, type Start } from './journey.js';

/** A login that must be refused because of one change. */
export interface RefusedCase {
  /** Id of the conformance test of the OpenID Foundation, where there is one. */
  id?: string | undefined;
  what: string;
  reason: LoginFailureReason;
  script: Script | ((provider: ScriptedProvider, host: Start) => Promise<Script>);
  /** Script of the unchanged login, where it differs from the default. */
  honest?: Script;
  /** Login options of the tenant. */
  login?: LoginOverrides | undefined;
}

type Reason = LoginFailureReason;
type TokenRow = [reason: Reason, what: string, token: TokenChange, id?: string, login?: LoginOverrides];

const now = (): number => Math.floor(Date.now() / 1000);
const cut = (name: string, length: number): TokenChange => ({
  claims: (claims) => void (claims[name] = String(claims[name]).slice(0, length)),
});

/** OIDC Core §3.1.3.7, claim by claim. The clock tolerance is 30 s. */
const CLAIMS: readonly TokenRow[] = [
  ['issuer', 'iss of another issuer', set({ iss: 'https://other.example' }), '-invalid-iss'],
  ['issuer', 'no iss', without('iss')],
  ['issuer', 'iss with a character less', cut('iss', -1)],
  ['subject', 'no sub', without('sub'), '-missing-sub'],
  ['subject', 'an empty sub', set({ sub: '' })],
  ['subject', 'a sub that is a number', set({ sub: 7 })],
  ['audience', 'aud of another client', set({ aud: 'other-web' }), '-invalid-aud'],
  ['audience', 'no aud', without('aud'), '-missing-aud'],
  ['audience', 'aud as an empty list', set({ aud: [] })],
  ['audience', 'a further audience and no azp', set({ aud: [CLIENT_ID, 'other-web'] })],
  ['audience', 'a further audience and its azp', set({ aud: [CLIENT_ID, 'other-web'], azp: 'other-web' })],
  ['audience', 'azp of another client', set({ azp: 'other-web' })],
  ['audience', 'an audience that is not text', set({ aud: [CLIENT_ID, 7] })],
  ['issued', 'no iat', without('iat'), '-missing-iat'],
  ['issued', 'issued in the future', set(() => ({ iat: now() + 60 }))],
  ['issued', 'iat as text', set(() => ({ iat: String(now()) }))],
  ['issued', 'not valid before the future', set(() => ({ nbf: now() + 60 }))],
  ['expired', 'expired a minute ago', set(() => ({ exp: now() - 60 }))],
  ['expired', 'no exp', without('exp')],
  ['expired', 'exp as text', set(() => ({ exp: String(now() + 300) }))],
  ['nonce', 'another nonce', set({ nonce: 'of-another-login' }), '-nonce-invalid'],
  ['nonce', 'no nonce', without('nonce')],
];

const MAX_AGE = { maxAge: 60 };

const AUTHENTICATION: readonly TokenRow[] = [
  ['auth_time', 'maxAge and no auth_time', without('auth_time'), undefined, MAX_AGE],
  ['auth_time', 'maxAge and too long ago', set(() => ({ auth_time: now() - 120 })), undefined, MAX_AGE],
  ['auth_time', 'maxAge and in the future', set(() => ({ auth_time: now() + 120 })), undefined, MAX_AGE],
  ['auth_time', 'maxAge and auth_time as text', set(() => ({ auth_time: `${now()}` })), undefined, MAX_AGE],
];

const altered = (_payload: string, token: string): string => {
  const end = token.lastIndexOf('.') + 10;
  return `${token.slice(0, end)}${token[end] === 'A' ? 'B' : 'A'}${token.slice(end + 1)}`;
};

function critical(_payload: string, token: string): string {
  const [header = '', ...rest] = token.split('.');
  const read = JSON.parse(Buffer.from(header, 'base64url').toString()) as Claims;
  const changed = { ...read, crit: ['unheard-of'], 'unheard-of': true };
  return [Buffer.from(JSON.stringify(changed)).toString('base64url'), ...rest].join('.');
}

const withPublicKey = (payload: string): string => hmacSigned(payload, KEYS.rs256.pem, KEYS.rs256.kid);
const TWO_KEYS = { keys: { keys: [KEYS.attacker.jwk, KEYS.rs256.jwk] } };
const { rs256, es256, attacker, attackerEs } = KEYS;
const FORGED_ES = { ...attackerEs, kid: es256.kid };
const WITHOUT_KID = { header: { kid: undefined } };

const SIGNATURES: readonly TokenRow[] = [
  ['algorithm', 'no signature at all', { write: unsigned }, '-idtoken-sig-none'],
  ['algorithm', 'an algorithm that is not on the list', { key: { ...rs256, alg: 'RS512' } }],
  ['algorithm', 'HS256 with the public key as its secret', { write: withPublicKey }],
  // A MAC is never accepted, so it is refused before it is computed.
  ['algorithm', 'HS256 with any secret', { write: (text) => hmacSigned(text, 'x') }, '-invalid-sig-hs256'],
  ['signature', 'RS256, the signature altered', { write: altered }, '-invalid-sig-rs256'],
  ['signature', 'a key of an attacker, its kid a known one', { key: { ...attacker, kid: rs256.kid } }],
  ['signature', 'a key of an attacker, its kid unknown', { key: attacker }],
  ['signature', 'a key that the token brings along', { key: attacker, header: { jwk: attacker.jwk } }],
  ['signature', 'ES256 by the key of an attacker', { key: FORGED_ES }, '-invalid-sig-es256'],
  ['signature', 'no kid and two possible keys', WITHOUT_KID, '-kid-absent-multiple-jwks', TWO_KEYS],
  ['signature', 'an unknown critical header', { write: critical }],
  ['token_type', 'an access token for an ID token', { header: { typ: 'at+jwt' } }],
  ['signature', 'no JWT', { write: () => 'no-jwt' }],
  ['signature', 'five parts', { write: (_payload, token) => `${token}.a.b` }],
];

const tokenCases = (which: 'frontToken' | 'backToken', rows: readonly TokenRow[]): RefusedCase[] =>
  rows.map(([reason, text, token, id, login]) => {
    const what = which === 'frontToken' ? `${text}, in the front-channel ID token` : text;
    return { id, what, reason, script: { [which]: token }, login };
  });

/** Changes of any ID token: of the one of the token endpoint, or of the one in the authorization response. */
export const idTokenCasesOf = (which: 'frontToken' | 'backToken'): RefusedCase[] =>
  tokenCases(which, [...CLAIMS, ...AUTHENTICATION, ...SIGNATURES]);

const AN_OTHER_HASH = 'LDktKdoQak3Pk0cnXxCltA';

/** The binding between the parts of a response: OIDC Core §3.3.2.9 to §3.3.2.11 and §3.3.3.6. */
export function hashCasesIn(flow: Flow): RefusedCase[] {
  const ofCode: readonly TokenRow[] = [
    ['code_hash', 'c_hash of another code', set({ c_hash: AN_OTHER_HASH }), '-invalid-chash'],
    ['code_hash', 'no c_hash', without('c_hash'), '-missing-chash'],
    ['code_hash', 'a c_hash that is cut short', cut('c_hash', 8)],
  ];
  const ofToken: readonly TokenRow[] = [
    ['token_hash', 'at_hash of another access token', set({ at_hash: AN_OTHER_HASH }), '-invalid-athash'],
    ['token_hash', 'no at_hash beside an access token', without('at_hash'), '-missing-athash'],
  ];
  const replaced = { authorization: (all: URLSearchParams) => all.set('access_token', 'another') };
  return [
    ...tokenCases('backToken', [
      ['token_hash', 'at_hash of another access token', set({ at_hash: AN_OTHER_HASH }), '-invalid-athash'],
      ['token_hash', 'at_hash that is not text', set({ at_hash: 7 })],
      ...(flow === 'code'
        ? []
        : [['subject', 'the two ID tokens name two people', set({ sub: 'mallory' })] as TokenRow]),
    ]),
    ...(flow === 'code' ? [] : tokenCases('frontToken', ofCode)),
    ...(flow === 'code token id_token'
      ? [
          ...tokenCases('frontToken', ofToken),
          { what: 'an access token replaced by another', reason: 'token_hash' as const, script: replaced },
        ]
      : []),
  ];
}

const TOO_LARGE = 300 * 1024;
const HTML = { headers: { 'content-type': 'text/html' }, body: '<p>Sorry</p>' };

type ReplyRow = [what: string, change: ReplyChange];

/** Replies that are invalid for the token endpoint and for userinfo. */
const MALFORMED: readonly ReplyRow[] = [
  ['not JSON', sends({ body: '{"sub": "pat"' })],
  ['a page', sends(HTML)],
  ['null', answers(null)],
  ['204', sends({ status: 204, body: '' })],
  ['a redirect', sends({ status: 302, headers: { location: '/elsewhere' }, body: '' })],
  ['too large', changes({ padding: 'x'.repeat(TOO_LARGE) })],
  ['401', answers({ error: 'invalid_client' }, 401)],
];

/** What else no transport and no token reply may have: `test/http/replies.spec.ts`, `test/tokens/tokens.spec.ts`. */
const TOKEN_REPLIES: readonly ReplyRow[] = [
  ...MALFORMED,
  ['an array', answers([{ sub: 'pat' }])],
  ['201', sends({ status: 201 })],
  ['400', answers({ error: 'invalid_grant', error_description: 'no longer valid' }, 400)],
  ['403 as a page', sends({ ...HTML, status: 403 })],
  ['no id_token', changes({ id_token: undefined })],
  ['id_token null', changes({ id_token: null })],
  ['id_token a number', changes({ id_token: 7 })],
  ['no access_token', changes({ access_token: undefined })],
  ['access_token with a line break', changes({ access_token: 'a\r\nX-Tenant-Id: b' })],
  ['another token_type', changes({ token_type: 'mac' })],
];

const FROM_USERINFO: Script = { email: 'userinfo' };

const USERINFO: readonly [reason: Reason, what: string, change: ReplyChange, id?: string][] = [
  ['subject', 'of another person', changes({ sub: 'mallory' }), '-userinfo-invalid-sub'],
  ['subject', 'without sub', changes({ sub: undefined })],
  ...MALFORMED.map(([what, change]) => ['provider', what, change] as [Reason, string, ReplyChange]),
];

const answered = (error: string): Script => ({
  authorization: (parameters) => {
    parameters.delete('code');
    parameters.set('error', error);
  },
});

const ERRORS: readonly [error: string, reason: Reason][] = [
  ['access_denied', 'denied'],
  ['login_required', 'login_required'],
  ['interaction_required', 'interaction_required'],
  ['consent_required', 'consent_required'],
  ['account_selection_required', 'account_selection_required'],
  ['server_error', 'provider'],
  ['', 'provider'],
  ['constructor', 'provider'],
];

/** Changes of everything except ID tokens. Those of the address are in `verified-email.spec.ts`. */
export function replyCasesIn(flow: Flow): RefusedCase[] {
  return [
    {
      what: 'iss of another provider beside the code (RFC 9207)',
      reason: 'issuer',
      script: { authorization: (parameters) => parameters.set('iss', 'https://other.example') },
    },
    // A hybrid reply is bound to its provider and its code by the front-channel ID token.
    ...(flow === 'code'
      ? [
          {
            what: 'no iss beside the code although it is required (RFC 9207)',
            reason: 'issuer' as const,
            script: { authorization: (parameters: URLSearchParams) => parameters.delete('iss') },
            login: { requireIss: true },
          },
        ]
      : []),
    ...ERRORS.map(([error, reason]) => ({ what: `error=${error}`, reason, script: answered(error) })),
    {
      what: 'the code of another login (PKCE)',
      reason: flow === 'code' ? 'provider' : 'code_hash',
      script: async (_provider, host) => {
        const { parameters } = await toProvider(new Visitor(), host);
        const code = parameters.get('code') ?? '';
        return { authorization: (own) => own.set('code', code) };
      },
    },
    ...TOKEN_REPLIES.map(([what, token]): RefusedCase => ({
      what: `the token endpoint answers ${what}`,
      reason: 'provider',
      script: { token },
    })),
    ...USERINFO.map(([reason, what, userinfo, id]): RefusedCase => ({
      id,
      what: `userinfo ${what}`,
      reason,
      script: { userinfo },
      honest: FROM_USERINFO,
    })),
  ];
}
