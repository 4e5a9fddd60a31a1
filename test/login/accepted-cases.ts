import { expect } from '@jest/globals';
import type { JWK } from 'jose';
import { KEYS } from '../support/provider-keys.js';
import {
  changes,
  set,
  without,
  type ReplyChange,
  type Script,
  type TokenChange,
} from '../support/provider-script.js';
import { CLIENT_ID, CLIENT_SECRET, type ScriptedProvider, type LoginOverrides } from '../support/provider.js';
import type { Flow } from './flows.js';

/** A login that must be accepted. */
export interface AcceptedCase {
  id?: string;
  what: string;
  script?: Script;
  login?: LoginOverrides | ((provider: ScriptedProvider) => LoginOverrides);
  /** Checks the requests to the provider. */
  seen?: (provider: ScriptedProvider) => void;
}

const now = (): number => Math.floor(Date.now() / 1000);
/** Changes every ID token of the flow. */
const tokens = (change: TokenChange): Script => ({ frontToken: change, backToken: change });
let keySets = 0;

/** A keys URL of its own for each case: tenants with the same URL share one key set. */
const jwksUrl = (provider: ScriptedProvider): LoginOverrides => {
  keySets += 1;
  return { keys: `${provider.url}/connect/jwks?set=${keySets}` };
};

const authentication: readonly AcceptedCase[] = [
  {
    what: 'client_secret_post, the default',
    seen: (provider) => {
      const { form, headers } = provider.last('/connect/token');
      expect(form.get('client_id')).toBe(CLIENT_ID);
      expect(form.get('client_secret')).toBe(CLIENT_SECRET);
      expect(headers.authorization).toBeUndefined();
    },
  },
  {
    id: '-client-secret-basic',
    what: 'client_secret_basic, form-encoded first',
    login: { clientAuth: 'basic' },
    seen: (provider) => {
      const { form, headers } = provider.last('/connect/token');
      const [id = '', secret = ''] = Buffer.from(String(headers.authorization).slice(6), 'base64')
        .toString()
        .split(':')
        .map((half) => new URLSearchParams(`x=${half}`).get('x') ?? '');
      expect([id, secret]).toEqual([CLIENT_ID, CLIENT_SECRET]);
      expect([form.has('client_id'), form.has('client_secret')]).toEqual([false, false]);
    },
  },
  {
    what: 'a public client with PKCE, which sends no secret',
    login: { clientSecret: undefined },
    seen: (provider) => {
      const { form, headers } = provider.last('/connect/token');
      expect(form.get('client_id')).toBe(CLIENT_ID);
      expect(form.has('client_secret')).toBe(false);
      expect(headers.authorization).toBeUndefined();
      expect(form.get('code_verifier')).toMatch(/^[\w-]{43}$/);
    },
  },
];

const claims: readonly AcceptedCase[] = [
  { what: 'the audience as a list with the client id', script: tokens(set({ aud: [CLIENT_ID] })) },
  {
    what: 'further audiences and the azp of this client',
    script: tokens(set({ aud: [CLIENT_ID, 'other-web'], azp: CLIENT_ID })),
  },
  { what: 'expired within the tolerance', script: tokens(set(() => ({ exp: now() - 15 }))) },
  { what: 'issued in the future within the tolerance', script: tokens(set(() => ({ iat: now() + 15 }))) },
  {
    what: 'an authentication recent enough for maxAge',
    login: { maxAge: 60 },
    script: tokens(set(() => ({ auth_time: now() - 50 }))),
    seen: (provider) => expect(provider.last('/connect/authorize').query.get('max_age')).toBe('60'),
  },
  {
    what: 'no at_hash in the ID token for the code, where it is optional',
    script: { backToken: without('at_hash') },
  },
];

const userinfo: readonly AcceptedCase[] = [
  {
    id: '',
    what: 'an address as a list, verified as .NET writes it',
    login: { requireVerifiedEmail: true },
    script: tokens(set({ email: ['pat@example.com'], email_verified: 'True' })),
  },
  {
    id: '-scope-userinfo-claims',
    what: 'the e-mail address only in userinfo',
    script: { email: 'userinfo' },
    seen: (provider) => expect(provider.last('/connect/authorize').query.get('scope')).toBe('openid profile'),
  },
  {
    id: '-userinfo-bearer-header',
    what: 'userinfo requested with the access token in the header only',
    script: { email: 'userinfo' },
    seen: (provider) => {
      const { headers, query, form } = provider.last('/connect/userinfo');
      expect(headers.authorization).toMatch(/^Bearer \S+$/);
      expect([...query, ...form]).toEqual([]);
    },
  },
];

const keyCases = (): readonly AcceptedCase[] => [
  { id: '-idtoken-sig-rs256', what: 'RS256', script: {} },
  { what: 'PS256', script: tokens({ key: KEYS.ps256 }) },
  { what: 'ES256', script: tokens({ key: KEYS.es256 }) },
  {
    id: '-kid-absent-single-jwks',
    what: 'no kid, one key',
    login: { keys: { keys: [KEYS.rs256.jwk] } },
    script: tokens({ header: { kid: undefined } }),
  },
  {
    id: '',
    what: 'the same key twice, and another key of its kid',
    login: {
      keys: { keys: [{ ...KEYS.next.jwk, kid: KEYS.rs256.kid }, KEYS.rs256.jwk, KEYS.rs256.jwk] as JWK[] },
    },
    script: {},
  },
  {
    what: 'unknown and unreadable keys behind a JWKS URL',
    login: jwksUrl,
    script: {
      keys: changes({ keys: [null, 7, {}, { kty: 'LMS' }, { kty: 'RSA', n: '?' }, KEYS.rs256.jwk] }),
    },
  },
  {
    id: '-signing-key-rotation',
    what: 'a new key behind a JWKS URL, which appeared right after the keys were fetched',
    login: jwksUrl,
    script: { ...tokens({ key: KEYS.next }), keys: afterTheFirst(changes({ keys: [KEYS.next.jwk] })) },
  },
];

/** Leaves the first reply as it is. */
function afterTheFirst(change: ReplyChange): ReplyChange {
  let isFirst = true;
  return (reply) => (isFirst ? void (isFirst = false) : change(reply));
}

/** Cases that every flow accepts. */
export function acceptedCasesIn(flow: Flow): AcceptedCase[] {
  return [
    { id: '', what: `a complete ${flow} flow` },
    {
      id: '-nonce-unless-code-flow',
      what: 'nonce, state and PKCE are always sent',
      seen: (provider) => {
        const { query } = provider.last('/connect/authorize');
        for (const name of ['nonce', 'code_challenge']) {
          expect(query.get(name)).toMatch(/^[\w-]{43}$/);
        }
        // RFC 7516 §3.1, with `dir`.
        expect(query.get('state')).toMatch(/^[\w-]+\.\.[\w-]+\.[\w-]+\.[\w-]+$/);
        expect(query.get('code_challenge_method')).toBe('S256');
        expect(query.get('response_type')).toBe(flow);
        expect(query.get('response_mode')).toBe(flow === 'code' ? null : 'form_post');
        expect([...new Set(query.keys())]).toEqual([...query.keys()]);
        // Sent only where the options set them.
        for (const name of ['prompt', 'max_age', 'tenantId']) {
          expect(query.has(name)).toBe(false);
        }
      },
    },
    {
      what: 'prompt, branding and further scopes, sent as in the options',
      login: { prompt: 'login', brandingTenantId: 'a-branding-guid', scope: ['profile', 'email'] },
      seen: (provider) => {
        const { query } = provider.last('/connect/authorize');
        expect([query.get('prompt'), query.get('tenantId')]).toEqual(['login', 'a-branding-guid']);
        expect(query.get('scope')).toBe('openid profile email');
      },
    },
    {
      what: 'token_type in any letter case',
      script: { token: changes({ token_type: 'bEARER' }) },
    },
    ...authentication,
    ...claims,
    ...userinfo,
    ...keyCases(),
  ];
}
