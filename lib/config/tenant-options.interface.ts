import type { KeyObject } from 'node:crypto';
import type { JSONWebKeySet, JWK } from 'jose';
import type { Dispatcher } from 'undici';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';

/** One tenant of the service, with the values of onboarding. */
export interface TenantOptions {
  /** Sent as `X-Tenant-Id`. */
  tenantId: string;
  /** URL of the REST API, without `/api/v1`. https; http only for loopback hosts. */
  baseUrl: string;
  /** URL of the identity provider, without `/connect`. https; http only for loopback hosts. */
  authUrl: string;
  /** Client id for the client credentials grant. */
  clientId: string;
  /**
   * Secret of that client, or a function that reads it for each token request. Required, unless `clientAuth` has a private
   * key.
   */
  clientSecret?: string | (() => string | Promise<string>) | undefined;
  /** How that client authenticates. Default `post`. */
  clientAuth?: ClientAuth | undefined;
  /** Scope of the API token. Default `idp_api`; `null` sends none. */
  scope?: string | null | undefined;
  /** Endpoints of a provider with other paths than those of the service. */
  endpoints?: EndpointOptions | undefined;
  /** Overrides the module's `http`. With a {@link TenantSource} no limit is larger than that of the module. */
  http?: HttpOptions | undefined;
  /** Without it, this tenant has no user login. */
  login?: LoginOptions | BearerLoginOptions | undefined;
}

/** A source of tenants that are known only at run time, such as a database of the host. */
export interface TenantSource {
  /**
   * Options of the tenant, or `undefined` if there is none. Called once per key and `tenantCache.ttl`. While it throws, rejects
   * or does not answer, the last good options are used (`tenantCache.staleIfError`).
   *
   * It must compare the key exactly, since keys that differ are different tenants: a database that ignores letter case, accents, spaces
   * at the end or the form of Unicode would make `ACME` a second tenant beside `acme`. Secrets are found by the key, never by what
   * stands in a row that the tenant may write: with the client id of another customer it would get that customer's token.
   *
   * Functions in the options may be new ones at each call: the newest are called, and the tenant keeps its tokens. A new
   * `http.dispatcher` function is called for a new dispatcher; return the same function to keep the connections.
   */
  find(key: string): TenantOptions | undefined | Promise<TenantOptions | undefined>;
}

/**
 * Client authentication at the token endpoint: the secret in the body (`post`) or in the header (`basic`, RFC 6749 §2.3.1),
 * or assertions signed with a private key.
 */
export type ClientAuth = 'post' | 'basic' | PrivateKeyAuth;

/**
 * `private_key_jwt` (RFC 7523): each request has a new assertion that is valid for 60 s.
 *
 * @example
 * clientAuth: { privateKey: await readKey('acme'), kid: '2026-11' }
 */
export interface PrivateKeyAuth {
  /** PEM (PKCS#8, PKCS#1 or SEC1, not encrypted), a JWK (object or JSON), or a `KeyObject`. RSA keys need 2048 bits. */
  privateKey: string | JWK | KeyObject;
  /** Default: that of the JWK, else none is sent. */
  kid?: string | undefined;
  /** Default: that of the JWK, else `RS256`, the ES algorithm of the curve, or `EdDSA`. */
  alg?: string | undefined;
  /** `aud`. Default: the `issuer` for a login, the URL of the token endpoint for the API client. */
  audience?: string | undefined;
}

/**
 * URLs of the provider's endpoints. Each is optional and absolute: https; http only for loopback hosts.
 *
 * @example
 * endpoints: { token: 'https://login.example.com/oauth2/token' }
 */
export interface EndpointOptions {
  /** Default `{authUrl}/connect/authorize`. */
  authorize?: string | undefined;
  /** For the API client and for logins. Default `{authUrl}/connect/token`. */
  token?: string | undefined;
  /** Default `{authUrl}/connect/userinfo`. */
  userinfo?: string | undefined;
  /** Default `{authUrl}/connect/endsession`. */
  endSession?: string | undefined;
}

/** Validation of the ID tokens and user access tokens of a provider. */
export interface ProviderOptions {
  /** Exact `iss` of the provider's tokens. */
  issuer: string;
  /**
   * The provider's public signing key: PEM (SPKI, PKCS#1 or certificate), a JWK or JWKS (object or JSON), or the
   * URL of a JWKS. A URL is fetched when first needed, kept 10 min, and fetched again for a token that no key verifies, at most
   * once in 30 s. Required without `discovery`.
   */
  keys?: string | JWK | JSONWebKeySet | undefined;
  /**
   * Reads the provider's metadata from `{issuer}/.well-known/openid-configuration` when first needed, and fills what is not set:
   * `keys`, `endpoints` and `requireIss`. Kept 10 min, and a day while it cannot be read. Its endpoints must be https and on
   * `allowedOrigins`. The token endpoint of the API client, `algorithms` and `clientAuth` never come from it. Default false.
   */
  discovery?: boolean | undefined;
  /** Accepted signature algorithms. Default `['RS256', 'PS256', 'ES256']`; `none` and `HS*` are never accepted. */
  algorithms?: string[] | undefined;
  /** Accepted clock difference in seconds. Default 30. */
  clockTolerance?: number | undefined;
  /** Claim with the contact e-mail address, or a list that holds one address. Default `email`. */
  emailClaim?: string | undefined;
  /**
   * Names of the claims that an identity keeps, beside `auth_time` and `acr`. Default: all. Where they do not fit in the identity
   * cookie, none of them is kept.
   */
  keepClaims?: string[] | undefined;
  /**
   * Final authorization check of a verified login, and of each new bearer token: only `true` admits, else `not_authorized`. May be
   * async. It gets all claims, also those that `keepClaims` does not keep. The answer to a token is kept until the token ends, for
   * 5 minutes at most.
   */
  authorize?: ((identity: ExhibitorIdentity) => boolean | Promise<boolean>) | undefined;
  /**
   * Refuses a login or a bearer token unless `email_verified` is true beside an `email` that is the address taken; userinfo is read
   * where the token does not say so. Not with another `emailClaim`. Default false: only one that is there and not true is refused, with
   * any `emailClaim`.
   */
  requireVerifiedEmail?: boolean | undefined;
}

/** User login in the browser with OpenID Connect. */
export interface LoginOptions extends ProviderOptions {
  /** Client id of the login, registered at the provider. */
  clientId: string;
  /**
   * A function reads it for each login, and once more after `invalid_client` or `unauthorized_client`. Without a secret and a
   * private key in `clientAuth`: a public client, protected by PKCE only.
   */
  clientSecret?: string | (() => string | Promise<string>) | undefined;
  /** Callback address, registered at the provider. The login must start on the same origin. */
  redirectUri: string;
  /**
   * Expected audience. Default `clientId`. Audiences may differ by token type: then `idToken` and `accessToken`,
   * the latter for `session: 'bearer'` and {@link TokenValidator}.
   */
  audience?:
    | string
    | {
        /** `aud` of ID tokens. Default `clientId`. */
        idToken?: string | undefined;
        /** `aud` of access tokens. Without it none is accepted. */
        accessToken?: string | undefined;
      }
    | undefined;
  /** Default `['openid', 'profile']`. `openid` is always sent. */
  scope?: string[] | undefined;
  /** Default and recommended: `code`. The response of the hybrid types is a `form_post`. */
  responseType?: 'code' | 'code id_token' | 'code token id_token' | undefined;
  /** `login` forces the login form of the provider. Sent only where set. */
  prompt?: string | undefined;
  /** Sent as `tenantId`: GUID of the client's branding at the provider. */
  brandingTenantId?: string | undefined;
  /** Largest age of the authentication in seconds. `auth_time` is then required (OIDC Core §3.1.2.1). */
  maxAge?: number | undefined;
  /**
   * Refuses a callback without the `iss` parameter (RFC 9207). Default: true where tenants of different issuers share a
   * `redirectUri`, whose query and port do not count, or come from a {@link TenantSource}, or with `discovery` where the provider says
   * that it sends `iss`; else false. An `iss` in the response is always checked.
   */
  requireIss?: boolean | undefined;
  /** Client authentication at the token endpoint. Default `post`. */
  clientAuth?: ClientAuth | undefined;
  /**
   * A logout also ends the session at the provider, at `endpoints.endSession`, with `discovery` at the address of the metadata, else
   * at `{authUrl}/connect/endsession`. Without it, the next login is silently that of the same user. Default false.
   */
  endSession?: boolean | undefined;
  /** Page to show after the logout at the provider, registered there. It must not change anything: any site can link to it. */
  postLogoutRedirectUri?: string | undefined;
  /** Clients whose bearer tokens are allowed: their `azp`, else `client_id`, `cid`, `appid`. Required with `session: 'bearer'`. */
  authorizedParties?: string[] | undefined;
}

/** For `session: 'bearer'` only: the host has no login, and requests carry the user's access token. */
export interface BearerLoginOptions extends ProviderOptions {
  /** `aud` of the access tokens. Required, so that no other token of the provider is accepted. */
  audience: {
    /** `aud` of access tokens. */
    accessToken: string;
  };
  /** Clients whose tokens are allowed: their `azp`, else `client_id`, `cid`, `appid`. */
  authorizedParties: string[];
}

/** Time limits, retries and sizes of requests. Those of a tenant override those of the module. */
export interface HttpOptions {
  /** Time limit of one call in ms, including token, retries and waits. Default 10 000. */
  deadline?: number | undefined;
  /** Time limit of one attempt in ms, connecting included; at most `deadline`. Default 4 000, so that there is time for another attempt. */
  attemptTimeout?: number | undefined;
  /**
   * Largest number of tries at one request, including the first. Default 3. One replay of a request that was reset before any
   * reply is not counted. After a 401 the request is sent with another token and counts anew.
   */
  attempts?: number | undefined;
  /** Largest accepted reply in bytes, decompressed. Default 2 MiB; other replies than of lists and lookups 256 KiB at most. */
  maxResponseBytes?: number | undefined;
  /**
   * Concurrent requests per tenant, origin and purpose (token, list, lookup, code of a login, userinfo). Default 64. Further requests
   * wait in a bounded queue.
   */
  maxConcurrent?: number | undefined;
  /**
   * Creates the undici dispatcher, for a proxy or mTLS. Its argument is our undici, since dispatchers of another version are not
   * compatible. Called once: tenants with the same function share its dispatcher. The module does not close it.
   *
   * @example
   * dispatcher: ({ ProxyAgent }) => new ProxyAgent('http://proxy.internal:3128')
   */
  dispatcher?: ((undici: typeof import('undici')) => Dispatcher) | undefined;
}

/** `http` of the module. */
export interface ModuleHttpOptions extends HttpOptions {
  /**
   * Connections of this process to one origin, over all tenants. Default 256. Further requests wait: their `attemptTimeout` begins
   * afterwards, and `deadline` ends the wait. They are served in turn; where several tenants use the origin, one has a
   * quarter at most, and one more for each purpose that has none. Together with the connections that the host accepts, they must fit the
   * open files of the process (`ulimit -n`).
   */
  maxConnections?: number | undefined;
}

/** {@link HttpOptions} with its defaults. */
export type HttpSettings = Required<Omit<HttpOptions, 'dispatcher'>> & Pick<HttpOptions, 'dispatcher'>;

/** {@link ModuleHttpOptions} with its defaults. */
export type ModuleHttpSettings = HttpSettings & Required<Pick<ModuleHttpOptions, 'maxConnections'>>;
