import type { Claims } from '../oidc/user-info.service.js';
import type { Tenant } from '../tenants/tenant.js';

/** About the authentication, not the person: hosts check them, so they are always kept. */
const ALWAYS_KEPT = ['auth_time', 'acr'];

/** The claims that `keepClaims` names; all without that option. */
export function keptClaims({ login }: Tenant, claims: Claims): Claims {
  const keep = login?.keepClaims;
  return keep === undefined ? claims : only(claims, [...ALWAYS_KEPT, ...keep]);
}

/** What is kept of claims that are too large for a cookie. */
export function fewestClaims(claims: Claims): Claims {
  return only(claims, ALWAYS_KEPT);
}

function only(claims: Claims, names: readonly string[]): Claims {
  return Object.fromEntries(Object.entries(claims).filter(([name]) => names.includes(name)));
}
