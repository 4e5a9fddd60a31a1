import { randomUUID } from 'node:crypto';
import type * as OidcProvider from 'oidc-provider';
import { createProviderStorage } from './provider-storage.js';
import { isLoopbackUrl, loginClients } from './provider-clients.js';
import { accountOf, grantEverything, signInPolicy, signInUrl } from './sign-in-policy.js';
import { PAGE_HEADERS, renderNotice } from './login-page.js';
import type { SandboxSeed, SeedPerson } from './seed.js';
import type { SigningKey } from './signing-key.js';

/** The scope of the REST API (service spec, endpoint 1). */
export const API_SCOPE = 'idp_api';
/** Where the identity provider serves its public keys. */
export const JWKS_PATH = '/connect/jwks';
/** Where the sign-in page lives. */
export const LOGIN_PATH = '/connect/login';

/** What the identity provider asks of the sandbox around it. */
export interface ProviderSetting {
  readonly issuer: string;
  readonly seed: SandboxSeed;
  readonly key: SigningKey;
  /** Lifetime of the next API access token, in seconds. */
  readonly tokenLifetime: () => number;
  /** Claims that tell API access tokens apart, so that they can be revoked. */
  readonly tokenClaims: () => Record<string, unknown>;
  /** Who is signed in without a page. */
  readonly signedInAs: () => SeedPerson | undefined;
}

/** The audience of API access tokens. */
export function apiAudience(issuer: string): string {
  return `${issuer}/api/v1`;
}

export type Provider = InstanceType<typeof OidcProvider.Provider>;

/** The certified `oidc-provider`, configured as the identity provider of the service spec. */
export function createIdentityProvider(oidc: typeof OidcProvider, setting: ProviderSetting): Provider {
  const provider = new oidc.Provider(setting.issuer, configuration(oidc, setting));

  const { prototype } = provider.Client;
  const registered = prototype.redirectUriAllowed;
  prototype.redirectUriAllowed = function redirectUriAllowed(uri) {
    return isLoopbackUrl(uri) || registered.call(this, uri);
  };

  // The spec names the description of this error; the package has a wording of its own.
  provider.use(async (context, next) => {
    await next();
    if (context.status === 401 && isInvalidClient(context.body)) {
      context.body = { error: 'invalid_client', error_description: 'Invalid client credentials' };
    }
  });
  return provider;
}

function configuration(oidc: typeof OidcProvider, setting: ProviderSetting): OidcProvider.Configuration {
  const { issuer, seed, key } = setting;
  const people = new Map(seed.people.map((person) => [person.sub, person]));
  const apiClients = new Set(seed.tenants.map(({ clientId }) => clientId));

  return {
    adapter: createProviderStorage(),
    clients: loginClients(seed.tenants),
    jwks: { keys: [key.privateJwk] },
    cookies: {
      keys: [randomUUID()],
      // Cookies know no port: names of our own, beside those of the host that is developed on this machine.
      names: {
        session: 'exhibitor_sandbox_session',
        interaction: 'exhibitor_sandbox_login',
        resume: 'exhibitor_sandbox_resume',
      },
    },
    routes: {
      authorization: '/connect/authorize',
      token: '/connect/token',
      userinfo: '/connect/userinfo',
      jwks: JWKS_PATH,
      end_session: '/connect/endsession',
    },
    scopes: ['openid', 'profile', 'email'],
    // "An e-mail claim is delivered when the profile scope was requested", from the id_token or from userinfo.
    claims: {
      openid: ['sub'],
      profile: ['name', 'email', 'email_verified'],
      email: ['email', 'email_verified'],
    },
    conformIdTokenClaims: false,
    responseTypes: ['code', 'code id_token', 'code id_token token'],
    extraParams: ['tenantId'],
    allowOmittingSingleRegisteredRedirectUri: false,
    clientBasedCORS: (_context, origin) => isLoopbackUrl(origin),
    // Two tabs may be signed in as two people: the second does not spoil the tokens of the first.
    expiresWithSession: async () => false,
    findAccount: (_context, sub) => accountOf(people.get(sub)),
    loadExistingGrant: grantEverything,
    interactions: { policy: signInPolicy(oidc, setting.signedInAs), url: signInUrl(LOGIN_PATH) },
    extraTokenClaims: (_context, token) =>
      token.kind === 'ClientCredentials' ? { ...setting.tokenClaims() } : undefined,
    renderError: (context, out) => {
      context.set(PAGE_HEADERS);
      context.body = renderNotice('This sign-in cannot go on', out.error_description ?? out.error);
    },
    ttl: {
      AccessToken: 3600,
      AuthorizationCode: 60,
      ClientCredentials: () => setting.tokenLifetime(),
      Grant: 86_400,
      IdToken: 3600,
      Interaction: 3600,
      Session: 86_400,
    },
    features: {
      devInteractions: { enabled: false },
      dPoP: { enabled: false },
      pushedAuthorizationRequests: { enabled: false },
      rpInitiatedLogout: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: (context, client) => {
          if (!apiClients.has(client.clientId)) {
            return undefined;
          }
          // Scope is "usually" sent (service spec, endpoint 1): without it the client gets all it may have.
          if (context.oidc.params) {
            context.oidc.params['scope'] ??= API_SCOPE;
          }
          return apiAudience(issuer);
        },
        getResourceServerInfo: (_context, resource, client) => {
          // A login never grants API access (service spec, "What the service does", rule 1).
          if (resource !== apiAudience(issuer) || !apiClients.has(client.clientId)) {
            throw new oidc.errors.InvalidTarget();
          }
          return {
            scope: API_SCOPE,
            audience: apiAudience(issuer),
            accessTokenFormat: 'jwt',
            jwt: { sign: { alg: 'RS256' } },
          };
        },
      },
    },
  };
}

function isInvalidClient(body: unknown): boolean {
  return typeof body === 'object' && body !== null && 'error' in body && body.error === 'invalid_client';
}
