import type { TenantSettings } from '../options/tenant-settings.js';

/**
 * Sets the default of `requireIss` for fixed tenants: true where tenants of different issuers share a `redirectUri`.
 * There, a malicious provider could pass its response off as another's (mix-up attack); the `iss` parameter prevents that
 * (RFC 9207 §1, RFC 9700 §4.4).
 */
export function requireIssDefaults(
  tenants: ReadonlyMap<string, TenantSettings>,
): [key: string, settings: TenantSettings][] {
  const issuersByCallback = new Map<string, Set<string>>();
  for (const { login } of tenants.values()) {
    if (login?.redirectUri !== undefined) {
      const issuers = issuersByCallback.get(login.redirectUri) ?? new Set();
      issuersByCallback.set(login.redirectUri, issuers.add(login.issuer));
    }
  }
  return [...tenants].map(([key, tenant]) => {
    const issuers = issuersByCallback.get(tenant.login?.redirectUri ?? '');
    return [key, withRequireIss(tenant, issuers !== undefined && issuers.size > 1)];
  });
}

/** The tenant with `requireIss` set where it must be, unless the host set it. Left unset, discovery may set it. */
export function withRequireIss(tenant: TenantSettings, isRequired: boolean): TenantSettings {
  if (tenant.login === undefined || tenant.login.requireIss !== undefined || !isRequired) {
    return tenant;
  }
  return { ...tenant, login: { ...tenant.login, requireIss: true } };
}
