import { ConfigurationError } from '../errors/configuration.error.js';
import type { LoginSettings } from '../options/tenant-settings.js';
import type { Tenant } from '../tenants/tenant.js';

/** Settings of a tenant with a login in the browser. */
export type BrowserLogin = LoginSettings & { clientId: string; redirectUri: string };

/**
 * The login settings of a tenant.
 *
 * @throws {ExhibitorError} `configuration_invalid` where the tenant has no login in the browser
 */
export function browserLoginOf(tenant: Tenant): BrowserLogin {
  const { login } = tenant;
  if (login?.clientId === undefined || login.redirectUri === undefined) {
    throw new ConfigurationError(
      [{ path: 'login', expected: 'is required: this tenant has no login' }],
      tenant.key,
    );
  }
  return { ...login, clientId: login.clientId, redirectUri: login.redirectUri };
}

/** True for the hybrid flow, whose response is a form POST. The response of the code flow is a query. */
export function isHybrid({ responseType }: Pick<LoginSettings, 'responseType'>): boolean {
  return responseType !== 'code';
}
