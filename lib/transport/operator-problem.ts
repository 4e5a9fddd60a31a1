import type { OperatorProblem } from '../tenants/operator-log.service.js';
import type { Tenant } from '../tenants/tenant.js';
import type { Failed, Outcome } from './outcome.js';
import type { Operation, TransportRequest } from './transport-request.interface.js';
import { splitUrl } from './wire/http-client.js';
import { TOO_LARGE } from './wire/reply-body.js';

/**
 * What an operator may have to mend after a request failed for the last time: a host that cannot be reached, or an address
 * where something else answers. `undefined` for failures of a service that was reached.
 */
export function operatorProblem(
  tenant: Tenant,
  { operation, url }: Pick<TransportRequest, 'operation' | 'url'>,
  outcome: Outcome,
): OperatorProblem | undefined {
  if (outcome.kind === 'answered') {
    return undefined;
  }
  const option = addressOption(tenant, operation);
  const { origin } = splitUrl(url);
  if (isUnreached(outcome)) {
    return {
      cause: `${option} unreached`,
      options: [option],
      message: `no connection to ${origin}: ${outcome.reason ?? outcome.message}`,
    };
  }
  if (outcome.why !== 'malformed') {
    return undefined;
  }
  // The other replies have a limit of their own, which no option raises.
  const isTooLarge = option === 'baseUrl' && outcome.message.endsWith(TOO_LARGE);
  return {
    cause: `${option} reply`,
    options: [isTooLarge ? 'http.maxResponseBytes' : option],
    message: `${origin} (${operation}): ${outcome.message}`,
    ...(outcome.status === undefined ? {} : { received: `status ${outcome.status}` }),
  };
}

/** Option with the address of a request. */
function addressOption(tenant: Tenant, operation: Operation): string {
  switch (operation) {
    case 'list':
    case 'lookup':
      return 'baseUrl';
    case 'keys':
      return 'login.keys';
    case 'userinfo':
      return tenant.endpointOption('userinfo');
    default:
      return tenant.endpointOption('token');
  }
}

/** True where there never was a connection: a wrong host, a port without a server, a certificate of another host. */
function isUnreached({ why, reason, unsent }: Failed): boolean {
  return reason !== undefined || (why === 'timeout' && unsent === true);
}
