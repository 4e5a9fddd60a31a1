import { LoginFailedError } from '../errors/login-failed.error.js';
import type { OperatorLog } from '../tenants/operator-log.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { clientProblem, describeRefusal, scrubRefusal } from '../tokens/oauth-refusal.js';
import { parseRefusal } from '../tokens/token-reply.js';
import type { TransportReply } from '../transport/transport-request.interface.js';

const MESSAGE = 'the token endpoint did not accept the code';

/**
 * The error for a reply that is not the tokens of a code, reported to the operator.
 *
 * @param hidden values of the request that must not be shown
 */
export function refuseCode(
  log: OperatorLog,
  tenant: Tenant,
  { status, body }: TransportReply,
  hidden: readonly string[],
): LoginFailedError {
  const parsed = parseRefusal(body);
  if (parsed === undefined) {
    log.report(tenant, {
      cause: 'login client: reply',
      options: [tenant.endpointOption('token')],
      message: 'the token endpoint answered the login client without tokens and without an OAuth error',
      received: `status ${status}`,
    });
    return new LoginFailedError('provider', MESSAGE, { tenant: tenant.key, status });
  }
  const refusal = scrubRefusal(parsed, hidden);
  log.report(
    tenant,
    refusal.oauthError === 'invalid_grant'
      ? // The browser delivered the code, so that anybody can cause this refusal.
        {
          cause: 'code',
          options: [],
          message: `the token endpoint refused a code: ${describeRefusal(refusal)}`,
          isUnverified: true,
        }
      : clientProblem(tenant, 'login.', refusal),
  );
  return new LoginFailedError('provider', MESSAGE, { tenant: tenant.key, status, ...refusal });
}
