import type { SandboxTenantOptions } from '../testing/index.js';

/** The environment variables of the complete host in the README, by the option of the tenant that each of them sets. */
export const HOST_VARIABLES = {
  tenantId: 'TENANT_ID',
  baseUrl: 'BASE_URL',
  authUrl: 'AUTH_URL',
  clientId: 'API_CLIENT_ID',
  clientSecret: 'API_CLIENT_SECRET',
  'login.clientId': 'LOGIN_CLIENT_ID',
  'login.clientSecret': 'LOGIN_CLIENT_SECRET',
  'login.redirectUri': 'REDIRECT_URI',
  'login.issuer': 'ISSUER',
  'login.keys': 'IDP_PUBLIC_KEY',
} as const;

/** The variable of the same host that has the first of `secrets`. */
export const COOKIE_SECRET = 'COOKIE_SECRET';

/** The variables of a tenant of the sandbox as lines of an env file, which a shell takes as well. */
export function environmentLines(tenant: SandboxTenantOptions, cookieSecret: string): string[] {
  const login = Object.entries(tenant.login).map(([name, value]) => [`login.${name}`, value]);
  const values: Readonly<Record<string, unknown>> = { ...tenant, ...Object.fromEntries(login) };
  const lines = Object.entries(HOST_VARIABLES).map(([option, name]) => {
    const value = String(values[option] ?? '');
    // Docker's reader of env files takes quotes as a part of the value: they are only where a shell requires them.
    return `${name}=${/^[\w.:/@-]*$/.test(value) ? value : `'${value}'`}`;
  });
  return [...lines, `${COOKIE_SECRET}=${cookieSecret}`];
}
