import { foreignText } from '../model/foreign-text.js';

/** The {@link TenantSource} of the host fails. */
export function tenantSourceFails(key: string, staleIfError: number): string {
  return (
    `the tenant source fails, first noticed for the tenant ${foreignText(key)}; ` +
    `the last good options of each tenant are used for ${staleIfError} ms at most`
  );
}
