import type { JSONWebKeySet, JWK } from 'jose';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { HttpOptions } from './http-options.interface.js';

/** One tenant of the service, as it was given at onboarding. */
export interface TenantOptions {
  /** Sent as `X-Tenant-Id`. */
  tenantId: string;
  /** Where the REST API is, without `/api/v1`. https; plain http only for loopback hosts. */
  baseUrl: string;
  /** Where the identity provider is, without `/connect`. https; plain http only for loopback hosts. */
  authUrl: string;
  /** API client of the client credentials grant. */
  clientId: string;
  /** Secret of that client, or a function that reads it: asked once for each token request. */
  clientSecret: string | (() => string | Promise<string>);
  /** Scope of the API token. Default `idp_api`; `null` sends none. */
  scope?: string | null;
  /** Merged over the module's `http`. */
  http?: HttpOptions;
  /** Absent: this tenant has no user login. */
  login?: LoginOptions | BearerLoginOptions;
}

/** How ID tokens and user access tokens of a provider are validated. */
export interface ProviderOptions {
  /** Exact `iss` of the provider's tokens. */
  issuer: string;
  /**
   * The provider's public signing key: PEM (SPKI, PKCS#1 or certificate), a JWK or JWKS (object or JSON), or the
   * URL of a JWKS. A URL is fetched when first needed and kept 10 min.
   */
  keys: string | JWK | JSONWebKeySet;
  /** Accepted signature algorithms. Default `['RS256', 'PS256', 'ES256']`; `none` and `HS*` are never accepted. */
  algorithms?: string[];
  /** Allowed difference of the clocks, in seconds. Default 30. */
  clockTolerance?: number;
  /** Claim that holds the contact e-mail address. Default `email`. */
  emailClaim?: string;
}

/** User login over OpenID Connect in the browser. */
export interface LoginOptions extends ProviderOptions {
  clientId: string;
  /** Absent: a public client, protected by PKCE alone. */
  clientSecret?: string;
  /** Callback address, registered with the provider. The login must start on its origin. */
  redirectUri: string;
  /**
   * Expected audience. Default `clientId`. Audiences may differ by token type: then `idToken` and `accessToken`,
   * the latter for `session: 'bearer'` and {@link TokenValidator}.
   */
  audience?: string | { idToken?: string; accessToken?: string };
  /** Default `['openid', 'profile']`. `openid` is always sent. */
  scope?: string[];
  /** Default and recommended: `code`. The hybrid types answer by `form_post`. */
  responseType?: 'code' | 'code id_token' | 'code token id_token';
  /** `login` forces the provider's form. Sent only where set. */
  prompt?: string;
  /** Sent as `tenantId`: the GUID under which the provider finds this client's branding. */
  brandingTenantId?: string;
  /** Oldest acceptable authentication in seconds; `auth_time` is then required (OIDC Core §3.1.2.1). */
  maxAge?: number;
  /** The host's last word: `false` refuses the login (`not_authorized`). May be async. */
  authorize?: (identity: ExhibitorIdentity) => boolean | Promise<boolean>;
  /** Refuse unless `email_verified` is true. Default false: only an explicit `false` is refused. */
  requireVerifiedEmail?: boolean;
  /**
   * Refuse a callback without the `iss` parameter (RFC 9207). Default: true where tenants of different issuers
   * share a `redirectUri` or come from a {@link TenantSource}, else false. An `iss` that was sent is always checked.
   */
  requireIss?: boolean;
  /** How the client authenticates at the token endpoint: `post` (default) or `basic` (RFC 6749 §2.3.1). */
  clientAuth?: 'post' | 'basic';
  /** Claims kept in the identity beside the standard ones. Default: all that fit. */
  keepClaims?: string[];
  /** `client_id`/`azp` values allowed in bearer tokens. Required with `session: 'bearer'`. */
  authorizedParties?: string[];
}

/** With `session: 'bearer'` only: no login here, requests carry the user's access token. */
export interface BearerLoginOptions extends ProviderOptions {
  /** `aud` of the access tokens. Required: an ID token must not pass for one. */
  audience: { accessToken: string };
  /** `client_id`/`azp` values allowed in the tokens. */
  authorizedParties: string[];
}
