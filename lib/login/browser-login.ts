import { ExhibitorError } from '../errors/exhibitor.error.js';
import type { LoginSettings } from '../options/tenant-settings.js';
import type { Tenant } from '../tenants/tenant.js';

/** Login settings of a tenant that people log in at with a browser. */
export type BrowserLogin = LoginSettings & { clientId: string; redirectUri: string };

/**
 * The browser login of a tenant.
 *
 * @throws {ExhibitorError} `configuration_invalid` where the tenant has none
 */
export function browserLoginOf(tenant: Tenant): BrowserLogin {
  const { login } = tenant;
  if (login?.clientId === undefined || login.redirectUri === undefined) {
    throw new ExhibitorError('configuration_invalid', 'this tenant has no login', { tenant: tenant.key });
  }
  return { ...login, clientId: login.clientId, redirectUri: login.redirectUri };
}

/** Hybrid replies come as a form the provider's page posts; the code alone comes in the query. */
export function isHybrid(login: Pick<LoginSettings, 'responseType'>): boolean {
  return login.responseType !== 'code';
}

/** Whether the callback, and so this host, is https. */
export function isSecureLogin(login: Pick<LoginSettings, 'redirectUri'>): boolean {
  return login.redirectUri?.startsWith('https:') === true;
}
