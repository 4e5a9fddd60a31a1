/** What the functions of a host do wrong: its `store` and its `TenantSource`. */
import { isRecord } from '../model/json-values.js';
import { untrustedText } from '../model/untrusted-text.js';
import type { Problem } from './problem.interface.js';

/** The `store` failed or was too slow. */
export function storeDown(error: unknown): string {
  return `the shared store does not answer (${reasonOf(error)}); continuing without it`;
}

export const STORE_ANSWERS_AGAIN = 'the shared store answers again';

/** `ECONNREFUSED 127.0.0.1:6379`, else the name of the error. Its message is not shown: it may contain the password. */
function reasonOf(error: unknown): string {
  const first = isRecord(error) ? error : {};
  // The connection error is the cause of what a client throws. Node tries all addresses of a name.
  const cause = isRecord(first['cause']) ? first['cause'] : first;
  const connection =
    Array.isArray(cause['errors']) && isRecord(cause['errors'][0]) ? cause['errors'][0] : cause;
  const { code, address, port } = connection;
  if (typeof code === 'string') {
    return untrustedText(typeof address === 'string' ? `${code} ${address}:${String(port)}` : code);
  }
  const { name } = first;
  return typeof name === 'string' ? untrustedText(name) : 'unknown error';
}

/** The `store` did not take a logout. */
export function unwrittenLogouts(count: number): string {
  return (
    `${count} logout(s) could not be written to the shared store; they are tried again for a minute, and until then other ` +
    'processes accept these identities'
  );
}

/**
 * The tenant source failed for this tenant.
 *
 * @param error what the host threw
 * @param staleIfError where the last good options serve: for how long at most, in ms
 */
export function tenantSourceFails(key: string, error: unknown, staleIfError: number | undefined): string {
  const message = isRecord(error) && typeof error['message'] === 'string' ? error['message'] : '';
  const reason = message === '' ? reasonOf(error) : untrustedText(message, 300);
  const effect =
    staleIfError === undefined
      ? 'no options of it can be used'
      : `its last good options are used for ${staleIfError} ms at most`;
  return `the tenant source fails for the tenant '${untrustedText(key)}'; ${effect}: ${reason}`;
}

/** `ExhibitorGuard` on a route whose event it must not guess. */
export function unnamedEvent(controller: string, handler: string): Problem {
  const message =
    `${controller}.${handler} has route parameters of which none is eventId, or is GraphQL: only the option resolveEvent ` +
    'can name its event, and it is not set';
  return { cause: `event of ${controller}.${handler}`, options: [], message };
}
