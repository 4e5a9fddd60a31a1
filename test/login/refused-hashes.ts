import type { Claims, Script } from '../support/provider-script.js';
import type { Flow, RefusedCase } from './flows.js';

const change = (which: 'frontToken' | 'backToken', edit: (claims: Claims) => void): Script => ({
  [which]: { claims: edit },
});

const AN_OTHER_HASH = 'LDktKdoQak3Pk0cnXxCltA';

/** The binding between the parts of a response: OIDC Core §3.3.2.9 to §3.3.2.11 and §3.3.3.6. */
export function hashCasesIn(flow: Flow): RefusedCase[] {
  return [
    {
      id: '-invalid-athash',
      what: 'at_hash of another access token, in the ID token for the code',
      reason: 'token_hash',
      script: change('backToken', (claims) => void (claims['at_hash'] = AN_OTHER_HASH)),
    },
    {
      what: 'at_hash that is not text, in the ID token for the code',
      reason: 'token_hash',
      script: change('backToken', (claims) => void (claims['at_hash'] = 7)),
    },
    ...(flow === 'code' ? [] : hybrid),
    ...(flow === 'code token id_token' ? withAccessToken : []),
  ];
}

const hybrid: readonly RefusedCase[] = [
  {
    id: '-invalid-chash',
    what: 'c_hash of another code',
    reason: 'code_hash',
    script: change('frontToken', (claims) => void (claims['c_hash'] = AN_OTHER_HASH)),
  },
  {
    id: '-missing-chash',
    what: 'no c_hash',
    reason: 'code_hash',
    script: change('frontToken', (claims) => void delete claims['c_hash']),
  },
  {
    what: 'a c_hash that is cut short',
    reason: 'code_hash',
    script: change('frontToken', (claims) => void (claims['c_hash'] = String(claims['c_hash']).slice(0, 8))),
  },
  {
    what: 'the two ID tokens name two people',
    reason: 'subject',
    script: change('backToken', (claims) => void (claims['sub'] = 'mallory')),
  },
];

const withAccessToken: readonly RefusedCase[] = [
  {
    id: '-invalid-athash',
    what: 'at_hash of another access token, in the front-channel ID token',
    reason: 'token_hash',
    script: change('frontToken', (claims) => void (claims['at_hash'] = AN_OTHER_HASH)),
  },
  {
    id: '-missing-athash',
    what: 'no at_hash beside a front-channel access token',
    reason: 'token_hash',
    script: change('frontToken', (claims) => void delete claims['at_hash']),
  },
  {
    what: 'an access token replaced by another',
    reason: 'token_hash',
    script: { authorization: (parameters) => parameters.set('access_token', 'another') },
  },
];
