import { randomUUID } from 'node:crypto';
import type * as OidcProvider from 'oidc-provider';
import { extraTokenClaims, resourceIndicators } from './api-access.js';
import { extendClients, isLoopbackUrl, logoutFeatures, providerClients } from './provider-clients.js';
import { createGrant, extendSessions, loginPageUrl } from './login.js';
import { PAGE_HEADERS, renderNotice } from './login-page.js';
import { END_SESSION_PATH, JWKS_PATH } from '../server/operations.js';
import { createProviderStorage } from './provider-storage.js';
import type { SeedPerson } from '../seed/seed.js';
import type { SandboxState } from '../sandbox-state.js';

export type Provider = InstanceType<typeof OidcProvider.Provider>;

/** Creates the identity provider of the service spec with the certified package `oidc-provider`. */
export function createIdentityProvider(oidc: typeof OidcProvider, state: SandboxState): Provider {
  const provider = new oidc.Provider(state.url, configuration(oidc, state));

  extendClients(provider, state);
  extendSessions(provider, state);

  // The service spec defines this `error_description`; `oidc-provider` sends a different one.
  provider.use(async (context, next) => {
    await next();
    if (context.status === 401 && Reflect.get(Object(context.body), 'error') === 'invalid_client') {
      context.body = { error: 'invalid_client', error_description: 'Invalid client credentials' };
    }
  });
  return provider;
}

function configuration(oidc: typeof OidcProvider, state: SandboxState): OidcProvider.Configuration {
  const { seed, key } = state;

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
    findAccount: (_context, sub) => accountOf(seed.people.find((person) => person.sub === sub)),
    loadExistingGrant: createGrant,
    interactions: { url: loginPageUrl },
    extraTokenClaims: (_context, token) => extraTokenClaims(state, token),
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
      resourceIndicators: resourceIndicators(oidc, state),
    },
  };
}

function accountOf(person: SeedPerson | undefined): OidcProvider.Account | undefined {
  if (!person) {
    return undefined;
  }
  const { sub, name, email, emailVerified, emailOnlyInUserinfo } = person;
  const claims = { sub, name, email, email_verified: emailVerified };
  return {
    accountId: sub,
    claims: (use) => (use === 'id_token' && emailOnlyInUserinfo ? { sub, name } : claims),
  };
}
