import { randomUUID } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type * as OidcProvider from 'oidc-provider';
import { API_SCOPE, apiAudience } from './api-tokens.js';
import { extendClients, isLoopbackUrl, logoutFeatures, providerClients } from './provider-clients.js';
import { accountOf, findOrCreateGrant, createLoginPolicy, loginPageUrl } from './login.js';
import { PAGE_HEADERS, renderNotice } from './login-page.js';
import { END_SESSION_PATH, JWKS_PATH } from './route.js';
import type { SandboxState } from './sandbox-state.js';

// The in-memory adapter of `oidc-provider` keeps 1,000, which some hundred logins fill.
const MOST_ENTRIES = 20_000;

/** Interactions also name a grant, but remain valid when it is revoked. */
const REVOKED_WITH_GRANT: ReadonlySet<unknown> = new Set(['AccessToken', 'AuthorizationCode']);

export type Provider = InstanceType<typeof OidcProvider.Provider>;

/** Creates the identity provider of the service spec with the certified package `oidc-provider`. */
export function createIdentityProvider(oidc: typeof OidcProvider, state: SandboxState): Provider {
  const provider = new oidc.Provider(state.url, configuration(oidc, state));

  extendClients(provider, state);

  // The service spec defines this `error_description`; `oidc-provider` sends a different one.
  provider.use(async (context, next) => {
    await next();
    if (context.status === 401 && isInvalidClient(context.body)) {
      context.body = { error: 'invalid_client', error_description: 'Invalid client credentials' };
    }
  });
  return provider;
}

function configuration(oidc: typeof OidcProvider, state: SandboxState): OidcProvider.Configuration {
  const { url, seed, key } = state;
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
    interactions: { policy: createLoginPolicy(oidc, state), url: loginPageUrl },
    extraTokenClaims: (_context, token) =>
      token.kind === 'ClientCredentials' ? { ...state.tokens.nextClaims() } : undefined,
    renderError: (context, out) => {
      context.set(PAGE_HEADERS);
      context.body = renderNotice('This sign-in cannot continue', out.error_description ?? out.error);
    },
    ttl: {
      AccessToken: 3600,
      AuthorizationCode: 60,
      ClientCredentials: () => state.settings.tokenLifetime,
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
          return apiAudience(url);
        },
        getResourceServerInfo: (_context, resource, client) => {
          // A login never grants API access (service spec, "What the service does", rule 1).
          if (resource !== apiAudience(url) || !apiClients.has(client.clientId)) {
            throw new oidc.errors.InvalidTarget();
          }
          return {
            scope: API_SCOPE,
            audience: apiAudience(url),
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
  console.warn = (...message: unknown[]) => {
    if (!String(message[0]).includes('oidc-provider WARNING')) {
      warn.apply(console, message);
    }
  };
  try {
    return await load();
  } finally {
    console.warn = warn;
  }
}

/** Creates the in-memory storage of an identity provider: sessions, interactions, grants, codes and access tokens. */
export function createProviderStorage(): OidcProvider.AdapterFactory {
  const entries = new LRUCache<string, OidcProvider.AdapterPayload>({ max: MOST_ENTRIES });

  return (model) => ({
    upsert: async (id, payload, expiresIn) => {
      entries.set(`${model}:${id}`, payload, { ttl: expiresIn && expiresIn * 1000 });
    },
    find: async (id) => entries.get(`${model}:${id}`),
    findByUid: async (uid) =>
      [...entries.values()].find((payload) => payload.kind === 'Session' && payload.uid === uid),
    // Used by the device flow only, which the sandbox does not support.
    findByUserCode: async () => undefined,
    consume: async (id) => {
      Object.assign(entries.get(`${model}:${id}`) ?? {}, { consumed: Math.floor(Date.now() / 1000) });
    },
    destroy: async (id) => {
      entries.delete(`${model}:${id}`);
    },
    revokeByGrantId: async (grantId) => {
      for (const [key, payload] of entries.entries()) {
        if (payload.grantId === grantId && REVOKED_WITH_GRANT.has(payload.kind)) {
          entries.delete(key);
        }
      }
    },
  });
}
