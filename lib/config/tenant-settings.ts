/** Schema of {@link TenantOptions}, with defaults applied and keys parsed. */
import * as v from 'valibot';
import { clientAuth, clientSecret } from './client-auth-option.js';
import { keySource } from './key-source.js';
import {
  base,
  callable,
  endpointUrl,
  flag,
  headerText,
  milliseconds,
  oneOf,
  optionsOf,
  registeredUrl,
  strings,
  text,
  whole,
} from './value-schemas.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { HttpOptions, ModuleHttpSettings } from './tenant-options.interface.js';

/** Asymmetric algorithms of RFC 7518 and RFC 8037. With `none` or a MAC, anybody who has the public key could sign. */
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

/** One list for all tenants without an own one. */
const DEFAULT_ALGORITHMS: (typeof ALGORITHMS)[number][] = ['RS256', 'PS256', 'ES256'];

export const HTTP_DEFAULTS: ModuleHttpSettings = Object.freeze({
  deadline: 10_000,
  attemptTimeout: 4_000,
  attempts: 3,
  maxResponseBytes: 2 * 1024 * 1024,
  maxConcurrent: 64,
  maxConnections: 256,
});

const httpEntries = {
  deadline: v.optional(milliseconds),
  attemptTimeout: v.optional(milliseconds),
  attempts: v.optional(whole(1, 10, 'requests')),
  maxResponseBytes: v.optional(whole(1_024, 1_073_741_824, 'bytes')),
  maxConcurrent: v.optional(whole(1, 10_000, 'requests')),
  dispatcher: v.optional(
    callable<NonNullable<HttpOptions['dispatcher']>>('must be a function that creates an undici dispatcher'),
  ),
};

/** Without members that are `undefined`: these options are merged over others. */
const httpSchema = v.pipe(optionsOf(httpEntries), v.transform(withoutUndefined));
/** Those of the module. */
export const moduleHttpSchema = v.pipe(
  optionsOf({ ...httpEntries, maxConnections: v.optional(whole(1, 10_000, 'connections')) }),
  v.transform(withoutUndefined),
);

function withoutUndefined<Options extends object>(options: Options): Options {
  const defined = { ...options };
  for (const name in defined) {
    if (defined[name] === undefined) {
      delete defined[name];
    }
  }
  return defined;
}

const scopeList = v.pipe(
  strings,
  v.transform((scopes) => [...new Set(['openid', ...scopes])].join(' ')),
);

const algorithms = v.pipe(
  v.array(oneOf(ALGORITHMS), 'must be a list of algorithms'),
  v.nonEmpty('must not be empty'),
);

const audienceByToken = optionsOf(
  { idToken: v.optional(text), accessToken: v.optional(text) },
  'must be a string, or { idToken, accessToken }',
);
const audience = v.lazy((value) => (typeof value === 'string' ? text : audienceByToken));

const loginEntries = optionsOf({
  issuer: text,
  keys: v.optional(keySource),
  discovery: v.optional(flag, false),
  algorithms: v.optional(algorithms),
  clockTolerance: v.optional(whole(0, 600, 'seconds'), 30),
  emailClaim: v.optional(text, 'email'),
  audience: v.optional(audience),
  authorizedParties: v.optional(v.pipe(strings, v.nonEmpty('must not be empty'))),
  clientId: v.optional(text),
  clientSecret: v.optional(clientSecret),
  redirectUri: v.optional(registeredUrl),
  scope: v.optional(scopeList, ['openid', 'profile']),
  responseType: v.optional(oneOf(['code', 'code id_token', 'code token id_token']), 'code'),
  prompt: v.optional(text),
  brandingTenantId: v.optional(text),
  maxAge: v.optional(whole(0, 31_536_000, 'seconds')),
  authorize: v.optional(callable<(identity: ExhibitorIdentity) => boolean | Promise<boolean>>()),
  requireVerifiedEmail: v.optional(flag, false),
  requireIss: v.optional(flag),
  clientAuth: v.optional(clientAuth, 'post'),
  keepClaims: v.optional(strings),
  endSession: v.optional(flag, false),
  postLogoutRedirectUri: v.optional(registeredUrl),
});

export const loginSchema = v.pipe(
  loginEntries,
  // The rules between options may set it later: a member added then would take 480 bytes of each tenant.
  v.transform((login) => ({
    requireIss: undefined,
    ...login,
    algorithms: login.algorithms ?? DEFAULT_ALGORITHMS,
  })),
);

const endpoints = optionsOf({
  authorize: v.optional(endpointUrl),
  token: v.optional(endpointUrl),
  userinfo: v.optional(endpointUrl),
  endSession: v.optional(endpointUrl),
});

export const tenantSchema = optionsOf({
  tenantId: headerText,
  baseUrl: base,
  authUrl: base,
  clientId: text,
  clientSecret: v.optional(clientSecret),
  clientAuth: v.optional(clientAuth),
  scope: v.optional(v.nullable(text), 'idp_api'),
  endpoints: v.optional(endpoints),
  http: v.optional(httpSchema),
  login: v.optional(loginSchema),
});

export type TenantSettings = v.InferOutput<typeof tenantSchema>;

export type LoginSettings = v.InferOutput<typeof loginSchema>;
