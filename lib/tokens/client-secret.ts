import { ExhibitorError } from '../errors/exhibitor.error.js';
import { foreignText } from '../model/foreign-text.js';
import type { SecretSource } from '../options/client-auth.js';
import type { ProblemLog } from '../problems/problem-log.service.js';
import { failedSecretFunction } from '../problems/token-problems.js';
import type { Tenant } from '../tenants/tenant.js';
import type { Deadline } from '../time/deadline.js';

/** Names an option with a secret, and the code of the error where its function fails. */
export interface SecretOption {
  name: 'clientSecret' | 'login.clientSecret';
  code: 'token_unavailable' | 'service_unavailable';
}

/**
 * The secret of a client; a function of the host is called each time, within the deadline. A function that fails is reported
 * to the operator.
 *
 * @throws {ExhibitorError} `code` of the option where the function fails or returns no secret, with its error as `cause`;
 * `deadline_exceeded`
 */
export async function readSecret(
  source: SecretSource,
  { name, code }: SecretOption,
  tenant: Tenant,
  deadline: Deadline,
  log: ProblemLog,
): Promise<string> {
  if (typeof source === 'string') {
    return source;
  }
  const failure = (message: string, cause?: unknown): ExhibitorError => {
    log.report(tenant, failedSecretFunction(name, message));
    // Without the name of the option: visitors see this message.
    return new ExhibitorError(code, 'the secret of the client is not available', {
      tenant: tenant.key,
      attempts: 0,
      cause,
    });
  };
  let secret: unknown;
  try {
    secret = await deadline.race(Promise.resolve(source()));
  } catch (error) {
    if (deadline.isOver) {
      throw deadline.failure({ tenant: tenant.key, attempts: 0 });
    }
    throw failure(`failed (${nameOf(error)})`, error);
  }
  if (typeof secret === 'string' && secret !== '') {
    return secret;
  }
  throw failure('returned no secret');
}

/** The message of the host's error is not logged: it may contain a secret. */
function nameOf(error: unknown): string {
  return error instanceof Error ? foreignText(error.name) : 'not an Error';
}
