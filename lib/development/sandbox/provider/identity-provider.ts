import { randomUUID } from 'node:crypto';
import type * as OidcProvider from 'oidc-provider';
import { isLoopback, parseUrl } from '../../../model/urls.js';
import { extraTokenClaims, PORTAL_APP, resourceIndicators } from './api-access.js';
import { createGrant, extendSessions, loginPageUrl } from './login.js';
import { PAGE_HEADERS, renderLogoutPage, renderNotice } from './login-page.js';
import { END_SESSION_PATH, JWKS_PATH } from '../server/operations.js';
import { createProviderStorage } from './provider-storage.js';
import { tenantOfClient, type SeedPerson, type SeedTenant } from '../seed/seed.js';
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
    clients: [
      ...seed.tenants.flatMap(clientsOf),
      { client_id: PORTAL_APP, token_endpoint_auth_method: 'none' },
    ],
    clientDefaults: CLIENT_DEFAULTS,
    jwks: { keys: [key.privateJwk] },
    cookies: { keys: [randomUUID()] },
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
      profile: ['name', 'email', 'email_verified'],
      email: ['email', 'email_verified'],
    },
    conformIdTokenClaims: false,
    responseTypes: ['code', 'code id_token', 'code id_token token'],
    extraParams: ['tenantId'],
    clientBasedCORS: (_context, origin) => isLoopbackUrl(origin),
    // Two tabs can be logged in as two people: the second login must not revoke the tokens of the first.
    expiresWithSession: async () => false,
    findAccount: (_context, sub) => accountOf(seed.people.find((person) => person.sub === sub)),
    loadExistingGrant: createGrant,
    interactions: { url: loginPageUrl },
    // Logout tokens go to hosts on loopback, which the connections of `oidc-provider` refuse: so by those of Node.
    fetch: (url, options) => fetch(url, { ...options, dispatcher: undefined } as RequestInit),
    extraTokenClaims: (_context, token) => extraTokenClaims(state, token),
    renderError: (context, out) => {
      context.set(PAGE_HEADERS);
      context.body = renderNotice('This sign-in cannot continue', out.error_description ?? out.error);
    },
    ttl: {
      AccessToken: 3600,
      ClientCredentials: () => state.settings.tokenLifetime,
      Grant: 86_400,
      IdToken: 3600,
      Interaction: 3600,
      Session: 86_400,
    },
    features: {
      devInteractions: { enabled: false },
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

/** Of the login clients of tenants, and of applications that call the API of a host. */
const CLIENT_DEFAULTS: Partial<OidcProvider.ClientMetadata> = {
  grant_types: ['authorization_code', 'implicit'],
  response_types: ['code', 'code id_token', 'code id_token token'],
  // Required, with https for hybrid clients. `extendClients` says which ones are accepted.
  redirect_uris: ['https://sandbox.invalid/callback'],
  // Logout tokens, and ID tokens then, have a `sid`.
  backchannel_logout_session_required: true,
  token_endpoint_auth_method: 'client_secret_post',
};

/** Of a tenant: an API client, a confidential login client and a public login client. */
function clientsOf(tenant: SeedTenant): OidcProvider.ClientMetadata[] {
  return [
    {
      client_id: tenant.clientId,
      client_secret: tenant.clientSecret,
      grant_types: ['client_credentials'],
      response_types: [],
      redirect_uris: [],
    },
    { client_id: tenant.loginClientId, client_secret: tenant.loginClientSecret },
    { client_id: tenant.publicLoginClientId, token_endpoint_auth_method: 'none' },
  ];
}

/** Whether a URL is plain http on loopback, without credentials and fragment. Any port and path is accepted. */
function isLoopbackUrl(url: string): boolean {
  const parsed = parseUrl(url);
  if (parsed === undefined) {
    return false;
  }
  const { protocol, hostname, username, password, hash } = parsed;
  return protocol === 'http:' && isLoopback(hostname) && `${username}${password}${hash}` === '';
}

/** Features of `oidc-provider`: logout by a client (RP-Initiated Logout 1.0) and logout tokens (Back-Channel Logout 1.0). */
function logoutFeatures() {
  return {
    backchannelLogout: { enabled: true },
    rpInitiatedLogout: {
      enabled: true,
      logoutSource: (context: OidcProvider.KoaContextWithOIDC, form: string) => {
        const { session, entities } = context.oidc;
        const isOwn = entities.IdTokenHint?.payload.sub === session?.accountId;
        context.set(PAGE_HEADERS);
        context.body = renderLogoutPage(form, isOwn);
      },
      postLogoutSuccessSource: (context: OidcProvider.KoaContextWithOIDC) => {
        context.set(PAGE_HEADERS);
        context.body = renderNotice('You are signed out', 'You can close this page.');
      },
    },
  };
}

/**
 * Accepts logins at the given redirect URIs or, without any, everywhere on loopback, and logouts on loopback and at the origins of
 * redirect URIs. Sends logout tokens to the addresses that are known at that time.
 */
function extendClients(provider: Provider, state: SandboxState): void {
  const { prototype } = provider.Client;
  const { redirectUris } = state.options;
  prototype.redirectUriAllowed = (uri) => redirectUris?.includes(uri) ?? isLoopbackUrl(uri);
  const origins = redirectUris?.map((uri) => new URL(uri).origin);
  prototype.postLogoutRedirectUriAllowed = (uri) =>
    isLoopbackUrl(uri) || origins?.includes(parseUrl(uri)?.origin ?? '') === true;
  Object.defineProperty(prototype, 'backchannelLogoutUri', {
    get(this: { clientId: string }) {
      return state.logoutUris.get(tenantOfClient(state.seed, this.clientId)?.key ?? '');
    },
  });
}
