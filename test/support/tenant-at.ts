import type { HttpOptions, TenantOptions } from '../../lib/index.js';

/** A tenant without a login whose service and provider are at this address. */
export function tenantAt(url = 'https://api.example', http?: HttpOptions): TenantOptions {
  return {
    tenantId: 'test-tenant',
    baseUrl: url,
    authUrl: url,
    clientId: 'client',
    clientSecret: 'secret-of-the-test',
    http,
  };
}
