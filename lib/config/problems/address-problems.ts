import { isRecord } from '../../model/json-values.js';
import { hideSecrets, untrustedText } from '../../model/untrusted-text.js';
import type { EndpointPaths, Problem } from './problem.interface.js';

interface SentRequest {
  operation: string;
  url: string;
}

export interface FailedRequest extends SentRequest {
  message: string;
  code: string;
  /** Where no connection was made: `ENOTFOUND`. */
  errorCode?: string | undefined;
  suspect?: 'process' | 'dispatcher' | 'either' | undefined;
  status?: number | undefined;
  /** The reply is larger than `http.maxResponseBytes`. */
  isTooLarge?: boolean | undefined;
}

/** Some providers sign userinfo for clients that are registered so. */
const UNSIGNED =
  'JSON. If the provider signs it, remove userinfo_signed_response_alg from this client at the provider';

/**
 * What an operator may have to mend after a request failed for the last time: a host that cannot be reached, or an address
 * where something else answers. `undefined` for failures of a service that was reached.
 */
export function addressProblem(tenant: EndpointPaths, failed: FailedRequest): Problem | undefined {
  const { operation, code, message, errorCode, suspect = 'address', status, isTooLarge } = failed;
  const option = addressOption(tenant, operation);
  // There never was a connection: a wrong host, a port without a server, a certificate of another host, a proxy that refuses; or a
  // proxy may have closed it.
  if (errorCode !== undefined) {
    const both = [option, 'http.dispatcher'];
    const options = { address: [option], dispatcher: both.slice(1), either: both, process: [] }[suspect];
    return {
      cause: `${options.join()} unreached`,
      options,
      message: `no connection to ${shownUrl(failed.url)}: ${errorCode}`,
    };
  }
  if (code !== 'malformed_response') {
    return undefined;
  }
  // The replies of the provider have a limit of their own, which no option raises.
  const isLimit = isTooLarge === true && option === 'baseUrl';
  return {
    cause: `${option} reply`,
    options: [isLimit ? 'http.maxResponseBytes' : option],
    message: `${shownUrl(failed.url)}: ${message}`,
    ...(operation === 'userinfo' ? { expected: UNSIGNED } : {}),
    ...(status === undefined ? {} : { received: `status ${status}` }),
  };
}

/** A partner that is slow or down, or has had enough of our requests: no option is wrong, as far as can be seen. */
export function partnerProblem(operation: string, message: string): Problem {
  return {
    cause: `${operation}: ${message}`,
    options: [],
    message: `${operation}: ${message}`,
    isWarning: true,
  };
}

/** A circuit opened, or closed again. */
export function circuitLine(operation: string, tenant: string, origin: string, isOpen: boolean): string {
  const state = isOpen
    ? `open: many requests in a row to ${origin} had no reply, so that none is sent for a while`
    : `closed: ${origin} replies again`;
  return `${operation} of ${untrustedText(tenant)}: the circuit is ${state}`;
}

/** The option that says where the reply of an operation is read. */
export function addressOption(tenant: EndpointPaths, operation: string): string {
  switch (operation) {
    case 'list':
    case 'lookup':
      return 'baseUrl';
    case 'token':
      return tenant.tokenUrlOption;
    case 'userinfo':
      return tenant.endpointOption('userinfo');
    case 'metadata':
      return 'login.issuer';
    case 'keys':
      return tenant.keysOption;
    default:
      return tenant.endpointOption('token');
  }
}

/**
 * The service answered 401 to a new token, 403, 404 or another 4xx. A 404 has two suspects: the base URL and the event, which a visitor can
 * choose. It is reported only until the base URL has answered a request.
 */
export function statusProblem(
  status: number,
  request: SentRequest,
  body: unknown,
  hasAnswered: boolean,
): Problem | undefined {
  if (status === 401 || status === 403) {
    return {
      cause: 'access',
      options: ['tenantId', 'scope'],
      message:
        `the service denied access with status ${status} to a new token: the tenant id is not that of the API client, ` +
        'or the scope is not enough',
    };
  }
  if (status !== 404) {
    return rejectedProblem(status, request, body);
  }
  if (hasAnswered) {
    return undefined;
  }
  return {
    cause: `${request.operation} 404`,
    options: ['baseUrl'],
    message:
      'the service answered 404: the path of the base URL is wrong, or there is no such event: ' +
      shownUrl(request.url),
    isWarning: true,
  };
}

/** The path of a lookup. An event and a base URL may have `contactEmail` in them too. */
const LOOKUP_PATH = /^(.*\/contactEmail\/)([^/]+)$/;

/** Members in which a service tells why it rejects a request (RFC 9457 §3.1, and what frameworks send). */
const TOLD_IN = ['title', 'detail', 'message', 'error', 'code'];

/** The service rejected a request with another 4xx: what its JSON says of it, without the address of the request in any encoding. */
function rejectedProblem(status: number, { operation, url }: SentRequest, body: unknown): Problem {
  const address = decodeURIComponent(LOOKUP_PATH.exec(new URL(url).pathname)?.[2] ?? '');
  const told = isRecord(body) ? TOLD_IN.map((name) => body[name]) : [];
  const text = told.filter((one) => typeof one === 'string').join('; ');
  const shown = hideSecrets(untrustedText(text, 600), [address], 200);
  return {
    cause: `${operation} rejected`,
    options: [],
    message: `${operation}: the service rejected the request with status ${status}`,
    received: shown === '' ? undefined : shown,
    isWarning: true,
  };
}

/** A URL as it was sent, without its query and the address of a contact. */
export function shownUrl(url: string): string {
  const { origin, pathname } = new URL(url);
  return origin + pathname.replace(LOOKUP_PATH, '$1{contactEmail}');
}
