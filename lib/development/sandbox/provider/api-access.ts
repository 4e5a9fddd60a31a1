import type * as OidcProvider from 'oidc-provider';
import { API_SCOPE, apiAudience } from '../rest-api.js';
import type { SandboxState } from '../sandbox-state.js';
import type { SeedPerson } from '../seed/seed.js';

/** The client of an application that calls the API of a host, such as a mobile app. Public: it must use PKCE. */
export const PORTAL_APP = 'portal-app';

/** Audience of the access tokens that people get with {@link PORTAL_APP}. */
const PORTAL_API = 'portal-api';

/** A resource is an absolute URI (RFC 8707 §2). Clients need not name it. */
const PORTAL_RESOURCE = `urn:exhibitor-sandbox:${PORTAL_API}`;

const FORMAT = { accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } } } as const;
const portalApi = { scope: '', audience: PORTAL_API, ...FORMAT };

/**
 * Which access tokens are for which API: those of the tenants' API clients for the REST API, those of people with
 * {@link PORTAL_APP} for the API of a host. All others are opaque, and for userinfo only.
 */
export function resourceIndicators(oidc: typeof OidcProvider, { url, seed }: SandboxState) {
  const apiClients = new Set(seed.tenants.map(({ clientId }) => clientId));
  const restApi = { scope: API_SCOPE, audience: apiAudience(url), ...FORMAT };
  const resourceOf = (clientId: string) => {
    const ofTenant = apiClients.has(clientId) ? restApi.audience : undefined;
    return clientId === PORTAL_APP ? PORTAL_RESOURCE : ofTenant;
  };
  return {
    enabled: true,
    defaultResource: (context: OidcProvider.KoaContextWithOIDC, { clientId }: OidcProvider.Client) => {
      // Scope is "usually" sent (service spec, endpoint 1). Without it, the client gets the scope of the REST API.
      if (context.oidc.params && apiClients.has(clientId)) {
        context.oidc.params['scope'] ??= API_SCOPE;
      }
      return resourceOf(clientId);
    },
    useGrantedResource: () => true,
    getResourceServerInfo: (_context: unknown, resource: string, { clientId }: OidcProvider.Client) => {
      // A login never grants access to the REST API (service spec, "What the service does", rule 1).
      if (resource !== resourceOf(clientId)) {
        throw new oidc.errors.InvalidTarget();
      }
      return resource === PORTAL_RESOURCE ? portalApi : restApi;
    },
  };
}

/** Claims of an access token in addition to those of RFC 9068: for the REST API its revocations, for the API of a host the e-mail address. */
export function extraTokenClaims(
  { seed, api }: SandboxState,
  token: OidcProvider.AccessToken | OidcProvider.ClientCredentials,
) {
  if (token.kind === 'ClientCredentials') {
    return { ...api.claimsOf(token.clientId) };
  }
  const person = seed.people.find(({ sub }) => sub === token.accountId);
  return token.clientId === PORTAL_APP && !person?.emailOnlyInUserinfo
    ? { email: person?.email, email_verified: person?.emailVerified }
    : undefined;
}

/** The access token that a person gets with {@link PORTAL_APP}, without the login page. */
export async function issueAccessToken(
  provider: OidcProvider.Provider,
  { sub }: SeedPerson,
): Promise<string> {
  const client = await provider.Client.find(PORTAL_APP);
  if (!client) {
    throw new Error(`ExhibitorSandbox has no client "${PORTAL_APP}"`);
  }
  const token = new provider.AccessToken({ accountId: sub, client, grantId: '', gty: 'authorization_code' });
  token.resourceServer = new provider.ResourceServer(PORTAL_RESOURCE, portalApi);
  return token.save();
}
