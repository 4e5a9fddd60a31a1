import { untrustedText } from '../model/untrusted-text.js';

/** The {@link TenantSource} of the host fails. */
export function tenantSourceFails(key: string, staleIfError: number): string {
  return (
    `the tenant source fails, first noticed for the tenant ${untrustedText(key)}; ` +
    `the last good options of each tenant are used for ${staleIfError} ms at most`
  );
}
