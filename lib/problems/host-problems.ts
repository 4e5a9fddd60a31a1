/** What the functions of a host do wrong: its `store` and its `TenantSource`. */
import { untrustedText } from '../model/untrusted-text.js';
import type { Problem } from './problem.interface.js';

/** The `store` failed or was too slow. The message of its error is not shown: it may contain the address and the password. */
export function storeDown(error: unknown): string {
  const name: unknown = error instanceof Error ? error.name : undefined;
  const reason = typeof name === 'string' ? untrustedText(name) : 'unknown error';
  return `the shared store does not answer (${reason}); continuing without it`;
}

/** The `store` did not take a logout. */
export function unwrittenLogouts(count: number): string {
  return (
    `${count} logout(s) could not be written to the shared store; they are tried again for a minute, and until then other ` +
    'processes accept these identities'
  );
}

export function tenantSourceFails(key: string, staleIfError: number): string {
  return (
    `the tenant source fails, first noticed for the tenant ${untrustedText(key)}; ` +
    `the last good options of each tenant are used for ${staleIfError} ms at most`
  );
}

/** `ExhibitorGuard` on a route whose event it must not guess. */
export function unnamedEvent(controller: string, handler: string): Problem {
  const message =
    `${controller}.${handler} has route parameters of which none is eventId, or is GraphQL: only the option resolveEvent ` +
    'can name its event, and it is not set';
  return { cause: `event of ${controller}.${handler}`, options: [], message };
}

/** A tenant of a {@link TenantSource} has larger limits than the module. */
export function httpCapped(key: string, names: readonly string[]): string {
  return `tenants.${untrustedText(key)}.http: ${names.join(', ')} above the http of the module, whose values are used`;
}
