import { randomUUID } from 'node:crypto';
import type * as OidcProvider from 'oidc-provider';
import { createProviderStorage } from './provider-storage.js';
import { isLoopbackUrl, logoutFeatures, providerClients, watchLogouts } from './provider-clients.js';
import { accountOf, findOrCreateGrant, createLoginPolicy, loginPageUrl } from './login-policy.js';
import { PAGE_HEADERS, renderNotice } from './login-page.js';
import type { SandboxSeed, SeedPerson } from './seed.js';
import type { SigningKey } from './signing-key.js';

/** The scope of the REST API (service spec, endpoint 1). */
export const API_SCOPE = 'idp_api';
/** Path of the JWKS. */
export const JWKS_PATH = '/connect/jwks';
/** Path of the logout (OpenID Connect RP-Initiated Logout 1.0). */
export const END_SESSION_PATH = '/connect/endsession';
/** Path of the login page, without the uid of the interaction. */
export const LOGIN_PATH = '/connect/login';

/** Options of {@link createIdentityProvider}. */
export interface ProviderOptions {
  readonly issuer: string;
  readonly seed: SandboxSeed;
  readonly key: SigningKey;
  /** Lifetime in seconds of the next access token for the REST API. */
  readonly tokenLifetime: () => number;
  /** Additional claims of the next access token for the REST API. */
  readonly tokenClaims: () => Record<string, unknown>;
  /** The person to log in without the login page. */
  readonly signedInAs: () => SeedPerson | undefined;
  /** Address of a client that receives logout tokens. */
  readonly backChannelLogoutUri: (clientId: string) => string | undefined;
}

/** Audience of access tokens for the REST API. */
export function apiAudience(issuer: string): string {
  return `${issuer}/api/v1`;
}

export type Provider = InstanceType<typeof OidcProvider.Provider>;

/** Creates the identity provider of the service spec with the certified package `oidc-provider`. */
export function createIdentityProvider(oidc: typeof OidcProvider, options: ProviderOptions): Provider {
  const provider = new oidc.Provider(options.issuer, configuration(oidc, options));

  // Accepts every loopback redirect URI in addition to the registered ones.
  const { prototype } = provider.Client;
  const isRegistered = prototype.redirectUriAllowed;
  prototype.redirectUriAllowed = function redirectUriAllowed(uri) {
    return isLoopbackUrl(uri) || isRegistered.call(this, uri);
  };

  watchLogouts(provider, options.backChannelLogoutUri);

  // The service spec defines this `error_description`; `oidc-provider` sends a different one.
  provider.use(async (context, next) => {
    await next();
    if (context.status === 401 && isInvalidClient(context.body)) {
      context.body = { error: 'invalid_client', error_description: 'Invalid client credentials' };
    }
  });
  return provider;
}

function configuration(oidc: typeof OidcProvider, options: ProviderOptions): OidcProvider.Configuration {
  const { issuer, seed, key } = options;
  const people = new Map(seed.people.map((person) => [person.sub, person]));
  const apiClients = new Set(seed.tenants.map(({ clientId }) => clientId));

  return {
    adapter: createProviderStorage(),
    clients: providerClients(seed.tenants),
    jwks: { keys: [key.privateJwk] },
    cookies: {
      keys: [randomUUID()],
      // Cookies are shared by all ports of a host. These names avoid conflicts with other local applications.
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
      end_session: END_SESSION_PATH,
    },
    scopes: ['openid', 'profile', 'email'],
    // "An e-mail claim is delivered when the profile scope was requested", in the ID token or in userinfo.
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
    // Two tabs can be logged in as two people: the second login must not revoke the tokens of the first.
    expiresWithSession: async () => false,
    findAccount: (_context, sub) => accountOf(people.get(sub)),
    loadExistingGrant: findOrCreateGrant,
    interactions: { policy: createLoginPolicy(oidc, options.signedInAs), url: loginPageUrl(LOGIN_PATH) },
    extraTokenClaims: (_context, token) =>
      token.kind === 'ClientCredentials' ? { ...options.tokenClaims() } : undefined,
    renderError: (context, out) => {
      context.set(PAGE_HEADERS);
      context.body = renderNotice('This sign-in cannot continue', out.error_description ?? out.error);
    },
    ttl: {
      AccessToken: 3600,
      AuthorizationCode: 60,
      ClientCredentials: () => options.tokenLifetime(),
      Grant: 86_400,
      IdToken: 3600,
      Interaction: 3600,
      Session: 86_400,
    },
    features: {
      devInteractions: { enabled: false },
      dPoP: { enabled: false },
      pushedAuthorizationRequests: { enabled: false },
      ...logoutFeatures(),
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: (context, client) => {
          if (!apiClients.has(client.clientId)) {
            return undefined;
          }
          // Scope is "usually" sent (service spec, endpoint 1). Without it, the client gets the scope of the REST API.
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

const NOT_INSTALLED =
  'ExhibitorSandbox requires the optional peer dependency "oidc-provider" 9, which is not installed. ' +
  'Install it with: npm install --save-dev oidc-provider@9';

/** Loads `oidc-provider` when a sandbox starts, so that the import of `nestjs-exhibitor/testing` does not require it. */
export async function loadProvider(
  load: () => Promise<typeof OidcProvider> = () => import('oidc-provider'),
): Promise<typeof OidcProvider> {
  try {
    return await withoutImportWarning(load);
  } catch (error) {
    throw isNotInstalled(error) ? new Error(NOT_INSTALLED, { cause: error }) : error;
  }
}

function isNotInstalled(error: unknown): boolean {
  return (
    error instanceof Error &&
    'code' in error &&
    (error.code === 'ERR_MODULE_NOT_FOUND' || error.code === 'MODULE_NOT_FOUND') &&
    /['"]oidc-provider['"]/.test(error.message)
  );
}

// On Node 20 `oidc-provider` logs on import that it recommends a later version. The sandbox works on Node 20.
async function withoutImportWarning<T>(load: () => Promise<T>): Promise<T> {
  const { warn } = console;
  const filteredWarn = (...message: unknown[]) => {
    if (!String(message[0]).includes('oidc-provider WARNING')) {
      warn.apply(console, message);
    }
  };
  console.warn = filteredWarn;
  try {
    return await load();
  } finally {
    if (console.warn === filteredWarn) {
      console.warn = warn;
    }
  }
}
