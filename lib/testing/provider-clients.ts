import type { ClientMetadata } from 'oidc-provider';
import type { SeedTenant } from './seed.js';

// The package refuses plain http here for hybrid clients; loopback addresses are let through when they are used.
const NO_REGISTERED_CALLBACK = 'https://sandbox.invalid/callback';

const LOOPBACK_HOSTS = new Set(['127.0.0.1', 'localhost', '[::1]']);

/** Three clients a tenant: the API client, the login client with a secret, and the one without. */
export function loginClients(tenants: readonly SeedTenant[]): ClientMetadata[] {
  return tenants.flatMap((tenant) => {
    const login: Omit<ClientMetadata, 'client_id'> = {
      client_name: tenant.name,
      grant_types: ['authorization_code', 'implicit'],
      response_types: ['code', 'code id_token', 'code id_token token'],
      redirect_uris: [NO_REGISTERED_CALLBACK, ...(tenant.redirectUris ?? [])],
    };
    return [
      {
        client_id: tenant.clientId,
        client_secret: tenant.clientSecret,
        client_name: tenant.name,
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
}

/** Whether an address is plain http on this machine: any port, any path, no credentials and no fragment. */
export function isLoopbackUrl(address: string): boolean {
  if (!URL.canParse(address)) {
    return false;
  }
  const { protocol, hostname, username, password, hash } = new URL(address);
  return protocol === 'http:' && LOOPBACK_HOSTS.has(hostname) && `${username}${password}${hash}` === '';
}
