import type * as OidcProvider from 'oidc-provider';
import { PAGE_HEADERS, renderLogoutPage, renderNotice } from './login-page.js';
import { isLoopbackUrl } from './provider-clients.js';

type Provider = InstanceType<typeof OidcProvider.Provider>;

/** Features of `oidc-provider`: logout by a client (RP-Initiated Logout 1.0) and logout tokens (Back-Channel Logout 1.0). */
export function logoutFeatures() {
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

/** Accepts every loopback page after a logout, and sends logout tokens to the addresses that are known at that time. */
export function watchLogouts(
  provider: Provider,
  backChannelLogoutUri: (clientId: string) => string | undefined,
): void {
  const { prototype } = provider.Client;
  const isRegistered = prototype.postLogoutRedirectUriAllowed;
  prototype.postLogoutRedirectUriAllowed = function postLogoutRedirectUriAllowed(uri) {
    return isLoopbackUrl(uri) || isRegistered.call(this, uri);
  };
  Object.defineProperty(prototype, 'backchannelLogoutUri', {
    get(this: { clientId: string }) {
      return backChannelLogoutUri(this.clientId);
    },
  });
}
