import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AdapterFactory, ClientMetadata, Configuration } from 'oidc-provider';
import { loadProvider } from '../../lib/testing/sandbox/provider/load-provider.js';
import { isLoopbackUrl } from '../../lib/testing/sandbox/provider/identity-provider.js';
import { createProviderStorage } from '../../lib/testing/sandbox/provider/provider-storage.js';
import { KEYS } from './provider-keys.js';
import { follow } from './server.js';

/** A request to a token endpoint. */
interface TokenRequest {
  authorization: string | undefined;
  form: URLSearchParams;
}

/** The certified package `oidc-provider` with its own paths, clients of a test, and one person who is logged in at once. */
export class CertifiedProvider {
  readonly tokenRequests: TokenRequest[] = [];

  private constructor(
    readonly url: string,
    readonly stop: () => Promise<void>,
  ) {}

  /** @param clients the redirect URIs of the host may be any on loopback */
  static async start(clients: readonly ClientMetadata[]): Promise<CertifiedProvider> {
    const { Provider } = await loadProvider();
    const server = createServer();
    const { url, stop } = await follow(server);
    const started = new CertifiedProvider(url, stop);
    const provider = new Provider(started.url, configuration(clients));
    provider.Client.prototype.redirectUriAllowed = isLoopbackUrl;
    provider.use(async (context, next) => {
      await next();
      if (context.path === '/token') {
        const form = new URLSearchParams(context.oidc.body as Record<string, string>);
        started.tokenRequests.push({ authorization: context.get('authorization') || undefined, form });
      }
    });
    const callback = provider.callback();
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      if (request.url?.startsWith('/interaction/') === true) {
        void provider.interactionFinished(request, response, { login: { accountId: 'pat' } });
      } else {
        void callback(request, response);
      }
    });
    return started;
  }
}

/**
 * Storage with the clients. As an option of the provider they would be cloned, and in Jest a clone is no plain object of the
 * provider.
 */
function storageWith(clients: readonly ClientMetadata[]): AdapterFactory {
  const storage = createProviderStorage();
  return (model) => {
    const adapter = storage(model);
    if (model === 'Client') {
      adapter.find = async (id) => {
        const client = clients.find(({ client_id: known }) => known === id);
        return client && { redirect_uris: ['https://host.invalid/callback'], ...client };
      };
    }
    return adapter;
  };
}

function configuration(clients: readonly ClientMetadata[]): Configuration {
  return {
    adapter: storageWith(clients),
    jwks: { keys: [{ ...KEYS.rs256.privateKey.export({ format: 'jwk' }), kid: 'certified', use: 'sig' }] },
    cookies: { keys: ['a key of the cookies of the certified provider'] },
    claims: { openid: ['sub'], profile: ['name', 'email', 'email_verified'] },
    // By the standard, claims of a scope are at userinfo, unless there is no access token.
    conformIdTokenClaims: true,
    findAccount: (_context, sub) => ({
      accountId: sub,
      claims: () => ({ sub, name: 'Pat', email: 'pat@example.com', email_verified: true }),
    }),
    loadExistingGrant: async ({ oidc: { session, client, provider } }) => {
      const grant = new provider.Grant({ accountId: session?.accountId, clientId: client?.clientId });
      grant.addOIDCScope('openid profile');
      await grant.save();
      return grant;
    },
    interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
    scopes: ['openid', 'profile', 'idp_api'],
    ttl: { AccessToken: 60, ClientCredentials: 60, Grant: 60, IdToken: 60, Interaction: 60, Session: 60 },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
    },
  };
}
