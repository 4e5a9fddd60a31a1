import type { TenantSettings } from '../options/tenant-settings.js';

/**
 * Sets `requireIss` where the host left it open. Providers that share a callback address can be mixed up by an
 * attacker who runs one of them; the `iss` parameter tells them apart (RFC 9207 §1, RFC 9700 §4.4).
 */
export function requireIssDefaults(
  tenants: ReadonlyMap<string, TenantSettings>,
): [key: string, settings: TenantSettings][] {
  const issuersByCallback = new Map<string, Set<string>>();
  for (const { login } of tenants.values()) {
    if (login?.redirectUri === undefined) {
      continue;
    }
    const issuers = issuersByCallback.get(login.redirectUri) ?? new Set();
    issuersByCallback.set(login.redirectUri, issuers.add(login.issuer));
  }
  return [...tenants].map(([key, tenant]) => {
    const shared = (issuersByCallback.get(tenant.login?.redirectUri ?? '')?.size ?? 0) > 1;
    return [key, withRequireIss(tenant, shared)];
  });
}

/** The tenant with `requireIss` set to `fallback` where the host said nothing. */
export function withRequireIss(tenant: TenantSettings, fallback: boolean): TenantSettings {
  if (tenant.login === undefined || tenant.login.requireIss !== undefined) {
    return tenant;
  }
  return { ...tenant, login: { ...tenant.login, requireIss: fallback } };
}
