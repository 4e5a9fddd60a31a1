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
export function browserLoginOf({ key, login }: Tenant): BrowserLogin {
  if (login !== undefined && isBrowserLogin(login)) {
    return login;
  }
  throw new ConfigurationError([{ path: 'login', expected: 'is required: this tenant has no login' }], key);
}

function isBrowserLogin(login: LoginSettings): login is BrowserLogin {
  return login.clientId !== undefined && login.redirectUri !== undefined;
}

/** True for the hybrid flow, whose response is a form POST. The response of the code flow is a query. */
export function isHybrid({ responseType }: Pick<LoginSettings, 'responseType'>): boolean {
  return responseType !== 'code';
}
