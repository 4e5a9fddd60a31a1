import { foreignText } from '../model/foreign-text.js';

/** Names of claims that are shown. */
const MAX_NAMES = 10;

/** The {@link TenantSource} of the host fails. */
export function tenantSourceFails(key: string, staleIfError: number): string {
  return (
    `the tenant source fails, first noticed for the tenant ${foreignText(key)}; ` +
    `the last good options of each tenant are used for ${staleIfError} ms at most`
  );
}

/** The identity of a user did not fit its cookie. The provider chooses the names of claims. */
export function claimsRemoved(tenantKey: string, claims: readonly string[]): string {
  const names = claims.slice(0, MAX_NAMES).map((name) => foreignText(name));
  const rest = claims.length - names.length;
  return (
    `tenant ${tenantKey}: the identity is too large for its cookie; these claims were removed: ` +
    `${names.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}. List the claims you need in login.keepClaims.`
  );
}
