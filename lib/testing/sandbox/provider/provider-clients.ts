import type { ClientMetadata, KoaContextWithOIDC, Provider } from 'oidc-provider';
import { isLoopback } from '../../../model/loopback.js';
import { PORTAL_APP } from './api-access.js';
import { PAGE_HEADERS, renderLogoutPage, renderNotice } from './login-page.js';
import type { SandboxState } from '../sandbox-state.js';
import type { SeedTenant } from '../seed/seed.js';

// `oidc-provider` requires a redirect URI, with https for hybrid clients. `extendClients` says which ones are accepted.
const PLACEHOLDER_REDIRECT_URI = 'https://sandbox.invalid/callback';

/**
 * For each tenant an API client, a confidential login client and a public login client; and for all of them the client of an
 * application that calls the API of a host.
 */
export function providerClients(tenants: readonly SeedTenant[]): ClientMetadata[] {
  const app = {
    client_id: PORTAL_APP,
    redirect_uris: [PLACEHOLDER_REDIRECT_URI],
    token_endpoint_auth_method: 'none' as const,
  };
  const ofTenants = tenants.flatMap((tenant): ClientMetadata[] => {
    const login: Omit<ClientMetadata, 'client_id'> = {
      grant_types: ['authorization_code', 'implicit'],
      response_types: ['code', 'code id_token', 'code id_token token'],
      redirect_uris: [PLACEHOLDER_REDIRECT_URI],
      // Logout tokens, and ID tokens then, have a `sid`.
      backchannel_logout_session_required: true,
    };
    return [
      {
        client_id: tenant.clientId,
        client_secret: tenant.clientSecret,
        grant_types: ['client_credentials'],
        response_types: [],
        redirect_uris: [],
        token_endpoint_auth_method: 'client_secret_post',
      },
      {
        ...login,
        client_id: tenant.loginClientId,
        client_secret: tenant.loginClientSecret,
        token_endpoint_auth_method: 'client_secret_post',
      },
      { ...login, client_id: tenant.publicLoginClientId, token_endpoint_auth_method: 'none' },
    ];
  });
  return [...ofTenants, app];
}

/** Whether a URL is plain http on loopback, without credentials and fragment. Any port and path is accepted. */
export function isLoopbackUrl(url: string): boolean {
  if (!URL.canParse(url)) {
    return false;
  }
  const { protocol, hostname, username, password, hash } = new URL(url);
  return protocol === 'http:' && isLoopback(hostname) && `${username}${password}${hash}` === '';
}

/** Features of `oidc-provider`: logout by a client (RP-Initiated Logout 1.0) and logout tokens (Back-Channel Logout 1.0). */
export function logoutFeatures() {
  return {
    backchannelLogout: { enabled: true },
    rpInitiatedLogout: {
      enabled: true,
      logoutSource: (context: KoaContextWithOIDC, form: string) => {
        const { session, entities } = context.oidc;
        const isOwn = entities.IdTokenHint?.payload.sub === session?.accountId;
        context.set(PAGE_HEADERS);
        context.body = renderLogoutPage(form, isOwn);
      },
      postLogoutSuccessSource: (context: KoaContextWithOIDC) => {
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
export function extendClients(provider: Provider, state: SandboxState): void {
  const { prototype } = provider.Client;
  const { redirectUris } = state.options;
  prototype.redirectUriAllowed = (uri) => redirectUris?.includes(uri) ?? isLoopbackUrl(uri);
  prototype.postLogoutRedirectUriAllowed = (uri) =>
    isLoopbackUrl(uri) ||
    (URL.canParse(uri) && redirectUris?.some((one) => new URL(one).origin === new URL(uri).origin) === true);
  Object.defineProperty(prototype, 'backchannelLogoutUri', {
    get(this: { clientId: string }) {
      return state.logoutUriOf(this.clientId);
    },
  });
}
