import { LoginFailedError } from '../errors/login-failed.error.js';
import { refusedCode } from '../problems/login-problems.js';
import type { ProblemLog } from '../problems/problem-log.service.js';
import { uselessLoginReply } from '../problems/provider-problems.js';
import { refusedClient } from '../problems/token-problems.js';
import type { Tenant } from '../tenants/tenant.js';
import { scrubRefusal } from '../tokens/scrub.js';
import { parseRefusal } from '../tokens/token-reply.js';
import type { TransportReply } from '../transport/transport-request.interface.js';

const MESSAGE = 'the token endpoint did not accept the code';

/**
 * The error for a reply that is not the tokens of a code, reported to the operator.
 *
 * @param hidden values of the request that must not be shown
 */
export function refuseCode(
  log: ProblemLog,
  tenant: Tenant,
  { status, body }: TransportReply,
  hidden: readonly string[],
): LoginFailedError {
  const parsed = parseRefusal(body);
  if (parsed === undefined) {
    log.report(tenant, uselessLoginReply(tenant, status));
    return new LoginFailedError('provider', MESSAGE, { tenant: tenant.key, status });
  }
  const refusal = scrubRefusal(parsed, hidden);
  log.report(
    tenant,
    refusal.oauthError === 'invalid_grant' ? refusedCode(refusal) : refusedClient(tenant, 'login.', refusal),
  );
  return new LoginFailedError('provider', MESSAGE, { tenant: tenant.key, status, ...refusal });
}
