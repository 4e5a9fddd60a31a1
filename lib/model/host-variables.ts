/** Names of the environment variables of a host. This file imports nothing: the command line reads it without Nest. */

/** The variables of a tenant, by the option that each of them sets. Several tenants have a prefix each: `ACME_TENANT_ID`. */
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

/** The variable of `secrets`, which all tenants of a host share. */
export const SECRET_VARIABLE = 'COOKIE_SECRET';
