import { answers, changes, sends, type ReplyChange, type Script } from '../support/provider-script.js';
import { Visitor } from '../support/visitor.js';
import type { Flow, RefusedCase } from './flows.js';
import { toProvider } from './journey.js';

const TOO_LARGE = 300 * 1024;
const HTML = { headers: { 'content-type': 'text/html' }, body: '<p>Sorry</p>' };

/** Replies that are invalid for the token endpoint and for userinfo. */
const malformed: readonly [what: string, change: ReplyChange][] = [
  ['not JSON', sends({ body: '{"sub": "pat"' })],
  ['a page', sends(HTML)],
  ['JSON that says it is a page', sends({ headers: { 'content-type': 'text/html' } })],
  ['no type', sends({ headers: {} })],
  ['empty', sends({ body: '' })],
  ['null', answers(null)],
  ['an array', answers([{ sub: 'pat' }])],
  ['a text', answers('pat')],
  ['a number', answers(7)],
  ['204', sends({ status: 204, body: '' })],
  ['201', sends({ status: 201 })],
  ['a redirect', sends({ status: 302, headers: { location: '/elsewhere' }, body: '' })],
  ['too large', changes({ padding: 'x'.repeat(TOO_LARGE) })],
  ['400', answers({ error: 'invalid_grant', error_description: 'no longer valid' }, 400)],
  ['401', answers({ error: 'invalid_client' }, 401)],
  ['403 as a page', sends({ ...HTML, status: 403 })],
  ['404', answers({}, 404)],
];

const tokenReplies: readonly [what: string, change: ReplyChange][] = [
  ['no id_token', changes({ id_token: undefined })],
  ['id_token null', changes({ id_token: null })],
  ['id_token a number', changes({ id_token: 7 })],
  ['id_token an object', changes({ id_token: { alg: 'none' } })],
  ['no access_token', changes({ access_token: undefined })],
  ['access_token an object', changes({ access_token: {} })],
  ['access_token with a line break', changes({ access_token: 'a\r\nX-Tenant-Id: b' })],
  ['access_token empty', changes({ access_token: '' })],
  ['another token_type', changes({ token_type: 'mac' })],
  ['no token_type', changes({ token_type: undefined })],
  ['token_type a list', changes({ token_type: ['Bearer'] })],
];

const FROM_USERINFO: Script = { email: 'userinfo' };

const userinfo: readonly RefusedCase[] = [
  {
    id: '-userinfo-invalid-sub',
    what: 'userinfo of another person',
    reason: 'subject',
    script: { userinfo: changes({ sub: 'mallory' }) },
    honest: FROM_USERINFO,
  },
  {
    what: 'userinfo without sub',
    reason: 'subject',
    script: { userinfo: changes({ sub: undefined }) },
    honest: FROM_USERINFO,
  },
  {
    what: 'an address that is unverified in userinfo',
    reason: 'email_unverified',
    script: { userinfo: changes({ email_verified: false }) },
    honest: FROM_USERINFO,
  },
  {
    what: 'an address that is unverified in userinfo, as text',
    reason: 'email_unverified',
    script: { userinfo: changes({ email_verified: 'false' }) },
    honest: FROM_USERINFO,
  },
  { what: 'no e-mail address anywhere', reason: 'email_missing', script: { email: 'nowhere' } },
  {
    what: 'an e-mail claim that is not an address',
    reason: 'email_missing',
    script: { email: 'nowhere', backToken: { claims: (claims) => void (claims['email'] = 'pat') } },
  },
  {
    what: 'an e-mail claim that is not text',
    reason: 'email_missing',
    script: { email: 'nowhere', userinfo: changes({ email: ['pat@example.com'] }) },
  },
  ...malformed.map(([what, change]): RefusedCase => ({
    what: `userinfo answers ${what}`,
    reason: 'provider',
    script: { userinfo: change },
    honest: FROM_USERINFO,
  })),
];

const answered = (error: string): Script => ({
  authorization: (parameters) => {
    parameters.delete('code');
    parameters.set('error', error);
  },
});

const authorization: readonly RefusedCase[] = [
  {
    what: 'iss of another provider beside the code (RFC 9207)',
    reason: 'issuer',
    script: { authorization: (parameters) => parameters.set('iss', 'https://other.example') },
  },
  {
    what: 'no iss beside the code although it is required (RFC 9207)',
    reason: 'issuer',
    script: { authorization: (parameters) => parameters.delete('iss') },
    login: { requireIss: true },
  },
  { what: 'error=access_denied', reason: 'denied', script: answered('access_denied') },
  ...(
    ['login_required', 'interaction_required', 'consent_required', 'account_selection_required'] as const
  ).map((reason): RefusedCase => ({ what: `error=${reason}`, reason, script: answered(reason) })),
  { what: 'error=server_error', reason: 'provider', script: answered('server_error') },
  { what: 'an unknown error', reason: 'provider', script: answered('') },
];

/** A code that was issued to another browser. */
const stolenCode: RefusedCase = {
  what: 'the code of another login (PKCE)',
  reason: 'provider',
  script: async (_provider, host) => {
    const { parameters } = await toProvider(new Visitor(), host);
    const code = parameters.get('code') ?? '';
    return { authorization: (own) => own.set('code', code) };
  },
};

/** Changes of everything except ID tokens. */
export function replyCasesIn(flow: Flow): RefusedCase[] {
  // A hybrid reply is bound to its provider and its code by the front-channel ID token.
  const bound = flow === 'code' ? authorization : authorization.filter(({ login }) => login === undefined);
  return [
    ...bound,
    flow === 'code' ? stolenCode : { ...stolenCode, reason: 'code_hash' },
    ...[...malformed, ...tokenReplies].map(([what, change]): RefusedCase => ({
      what: `the token endpoint answers ${what}`,
      reason: 'provider',
      script: { token: change },
    })),
    ...userinfo,
  ];
}
