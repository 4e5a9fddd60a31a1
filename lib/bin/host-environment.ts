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

/** The environment of that host as lines of an env file, for a tenant of the sandbox. */
export function environmentLines(tenant: SandboxTenantOptions, cookieSecret: string): string[] {
  const lines = Object.entries(HOST_VARIABLES).map(([path, name]) => {
    const value = path.split('.').reduce<unknown>((options, option) => Object(options)[option], tenant);
    return `${name}=${quoted(String(value ?? ''))}`;
  });
  const { protocol, port } = new URL(tenant.login.redirectUri);
  // With https, a proxy in front of the host listens there.
  const listening = protocol === 'http:' ? [`PORT=${port || 80}`] : [];
  return [...lines, ...listening, `COOKIE_SECRET=${cookieSecret}`];
}

/** Docker's reader of env files takes quotes as a part of the value: they are only where Node.js requires them. */
function quoted(value: string): string {
  const mark = /^[\w.:/@-]*$/.test(value) ? '' : (["'", '"', '`'].find((one) => !value.includes(one)) ?? '');
  return `${mark}${value}${mark}`;
}
