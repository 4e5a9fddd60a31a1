/** What a checked {@link TenantOptions} becomes: defaults applied, keys parsed, bearer and browser login told apart. */
import * as v from 'valibot';
import { keySource } from './key-source.js';
import { anyFunction, base, headerText, milliseconds, secureUrl, text, whole } from './option-schemas.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { HttpOptions } from './http-options.interface.js';

const oneOf = <const T extends readonly string[]>(values: T) =>
  v.picklist(values, `must be one of ${values.map((value) => `'${value}'`).join(', ')}`);

/** Asymmetric algorithms of RFC 7518 and RFC 8037: `none` and MACs would let a reader of the public key sign. */
const ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
] as const;

const strings = v.array(text, 'must be a list of strings');

export const httpSchema = v.strictObject(
  {
    deadline: v.optional(milliseconds),
    attemptTimeout: v.optional(milliseconds),
    attempts: v.optional(whole(1, 10, 'requests')),
    maxResponseBytes: v.optional(whole(1_024, 1_073_741_824, 'bytes')),
    maxConcurrent: v.optional(whole(1, 10_000, 'requests')),
    dispatcher: v.optional(
      v.custom<NonNullable<HttpOptions['dispatcher']>>(
        (value) => typeof value === 'function',
        'must be a function that makes an undici dispatcher',
      ),
    ),
  },
  'must be an object of http options',
);

const scopeList = v.pipe(
  strings,
  v.transform((scopes) => [...new Set(['openid', ...scopes])].join(' ')),
);

const audience = v.union(
  [text, v.strictObject({ idToken: v.optional(text), accessToken: v.optional(text) })],
  'must be a string, or { idToken, accessToken }',
);

export const loginSchema = v.strictObject(
  {
    issuer: text,
    keys: keySource,
    algorithms: v.optional(
      v.pipe(v.array(oneOf(ALGORITHMS), 'must be a list of algorithms'), v.nonEmpty('must not be empty')),
      ['RS256', 'PS256', 'ES256'],
    ),
    clockTolerance: v.optional(whole(0, 600, 'seconds'), 30),
    emailClaim: v.optional(text, 'email'),
    audience: v.optional(audience),
    authorizedParties: v.optional(v.pipe(strings, v.nonEmpty('must not be empty'))),
    clientId: v.optional(text),
    clientSecret: v.optional(text),
    redirectUri: v.optional(secureUrl),
    scope: v.optional(scopeList, ['openid', 'profile']),
    responseType: v.optional(oneOf(['code', 'code id_token', 'code token id_token']), 'code'),
    prompt: v.optional(text),
    brandingTenantId: v.optional(text),
    maxAge: v.optional(whole(0, 31_536_000, 'seconds')),
    authorize: v.optional(
      v.custom<(identity: ExhibitorIdentity) => boolean | Promise<boolean>>(
        (value) => typeof value === 'function',
        'must be a function',
      ),
    ),
    requireVerifiedEmail: v.optional(v.boolean('must be true or false'), false),
    requireIss: v.optional(v.boolean('must be true or false')),
    clientAuth: v.optional(oneOf(['post', 'basic']), 'post'),
    keepClaims: v.optional(strings),
  },
  'must be an object of login options',
);

export const tenantSchema = v.strictObject(
  {
    tenantId: headerText,
    baseUrl: base,
    authUrl: base,
    clientId: text,
    clientSecret: v.union(
      [text, v.custom<() => string | Promise<string>>((value) => typeof value === 'function')],
      'must be a non-empty string or a function',
    ),
    scope: v.optional(v.nullable(text), 'idp_api'),
    http: v.optional(httpSchema),
    login: v.optional(loginSchema),
  },
  'must be an object of tenant options',
);

/** Checked options of one tenant. */
export type TenantSettings = v.InferOutput<typeof tenantSchema>;

/** Checked login options of one tenant. */
export type LoginSettings = v.InferOutput<typeof loginSchema>;

export { anyFunction, oneOf };
