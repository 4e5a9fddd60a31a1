/** What an operator may have to mend where a request to a partner fails or is refused: the options to look at, or none. */
import { isRecord } from '../../model/json-values.js';
import { contactIn, withoutContact } from '../../model/urls.js';
import { hideSecrets, untrustedText } from '../../model/untrusted-text.js';
import type { EndpointName, Tenant } from '../tenant.js';
import type { Problem } from './problem.interface.js';

interface SentRequest {
  operation: string;
  url: string;
}

/**
 * What made a request fail. Where no connection was made, this tells the options to look at.
 *
 * - `partner`: the service or the provider, or its address
 * - `dispatcher`: a proxy of `http.dispatcher`
 * - `either`: one of these two
 * - `us`: this process, an interceptor in it, or its machine
 * - `unknown`: the call ended first
 */
export type Blame = 'partner' | 'dispatcher' | 'either' | 'us' | 'unknown';

interface FailedRequest extends SentRequest {
  message: string;
  code: string;
  blame: Blame;
  /** Of a failed connection: `ENOTFOUND`. */
  why?: string | undefined;
  status?: number | undefined;
  /** The reply is larger than `http.maxResponseBytes`. */
  isTooLarge?: boolean | undefined;
}

/** An OAuth error (RFC 6749 §5.2) of the provider, without secrets. */
export interface OAuthFailure {
  oauthError: string;
  oauthErrorDescription: string | undefined;
}

/** Options to look at, by OAuth error (RFC 6749 §5.2). The paths are below the client: `clientSecret`, `login.clientSecret`. */
const OPTIONS_BY_ERROR: Readonly<Record<string, readonly string[]>> = {
  invalid_client: ['clientSecret', 'clientId'],
  // Keycloak answers a wrong secret with it, and an unknown client with `invalid_client`.
  unauthorized_client: ['clientSecret', 'clientId'],
  unsupported_grant_type: ['clientId'],
  invalid_scope: ['scope'],
};

/** Some providers sign userinfo for clients that are registered so. */
const UNSIGNED =
  'JSON. If the provider signs it, remove userinfo_signed_response_alg from this client at the provider';

/** The option that sets the address of an operation. */
export function addressOption(tenant: Tenant, operation: string): string {
  const { endpoints = {}, login } = tenant.settings;
  const optionOf = (name: EndpointName, isDiscovered = false): string => {
    const fallback = isDiscovered ? 'login.discovery' : 'authUrl';
    return endpoints[name] === undefined ? fallback : `endpoints.${name}`;
  };
  switch (operation) {
    case 'list':
    case 'lookup':
      return 'baseUrl';
    case 'metadata':
      return 'login.issuer';
    case 'keys':
      return login?.keys === undefined ? 'login.discovery' : 'login.keys';
    case 'authorize':
    case 'userinfo':
      return optionOf(operation, login?.discovery);
    case 'code':
      return optionOf('token', login?.discovery);
    default:
      // The API client knows no discovery.
      return optionOf('token');
  }
}

/**
 * A request failed for the last time: no connection was made, something else answers at its address, or the partner is slow, down, or
 * has had enough of our requests. Then no option is wrong, as far as can be seen.
 */
export function failedRequest(tenant: Tenant, failed: FailedRequest): Problem {
  const { operation, url, code, message, blame, why, status } = failed;
  const option = addressOption(tenant, operation);
  if (why !== undefined) {
    const options = optionsToLookAt(blame, option);
    const shown = `no connection to ${shownUrl(url)}: ${why}`;
    return { cause: `${options.join()} unreached`, options, message: shown };
  }
  if (code !== 'malformed_response') {
    return partnerProblem(operation, message);
  }
  // The replies of the provider have a limit of their own, which no option raises.
  const isLimit = failed.isTooLarge === true && option === 'baseUrl';
  return {
    cause: `${option} reply`,
    options: [isLimit ? 'http.maxResponseBytes' : option],
    message: `${shownUrl(url)}: ${message}`,
    expected: operation === 'userinfo' ? UNSIGNED : undefined,
    received: status === undefined ? undefined : `status ${status}`,
  };
}

function optionsToLookAt(blame: Blame, address: string): string[] {
  switch (blame) {
    case 'partner':
      return [address];
    case 'dispatcher':
      return ['http.dispatcher'];
    case 'either':
      return [address, 'http.dispatcher'];
    default:
      return [];
  }
}

/** A partner that is slow or down, or has had enough of our requests. */
export function partnerProblem(operation: string, message: string): Problem {
  return {
    cause: `${operation}: ${message}`,
    options: [],
    message: `${operation}: ${message}`,
    isWarning: true,
  };
}

/**
 * The token endpoint refused a client.
 *
 * @param client `''` for the API client, `'login.'` for the login client
 */
export function refusedClient(
  tenant: Tenant,
  client: '' | 'login.',
  failure: OAuthFailure & { readonly status?: number | undefined },
): Problem {
  const { oauthError, status } = failure;
  const known = Object.hasOwn(OPTIONS_BY_ERROR, oauthError) ? OPTIONS_BY_ERROR[oauthError] : undefined;
  const { clientAuth } = client === '' ? tenant.settings : { ...tenant.login };
  // A client with a private key has no secret.
  const pathOf = (option: string): string =>
    client + (option === 'clientSecret' && typeof clientAuth === 'object' ? 'clientAuth' : option);
  // A 404, and a reply without an OAuth error, are of another address than that of a token endpoint.
  const isElsewhere = known === undefined && (status === 404 || oauthError === `http_${status}`);
  const address = addressOption(tenant, client === '' ? 'token' : 'code');
  const name = client === '' ? 'API' : 'login';
  return {
    // A code that the provider made up must not have a limit of its own.
    cause: `${name} client: ${known === undefined ? 'other' : oauthError}`,
    options: isElsewhere ? [address] : (known ?? ['clientId']).map(pathOf),
    message: `the token endpoint refused the ${name} client: ${describeFailure(failure)}`,
  };
}

/** `invalid_client (Unknown client)` */
export function describeFailure({ oauthError, oauthErrorDescription }: OAuthFailure): string {
  return oauthErrorDescription === undefined ? oauthError : `${oauthError} (${oauthErrorDescription})`;
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
    const which = status === 401 ? ' to a new token' : '';
    return {
      cause: 'access',
      options: ['tenantId', 'scope'],
      message:
        `the service denied access with status ${status}${which}: the tenant id is not that of the API client, ` +
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

/** Members in which a service tells why it rejects a request (RFC 9457 §3.1, and what frameworks send). */
const TOLD_IN = ['title', 'detail', 'message', 'error', 'code'];

/** The service rejected a request with another 4xx: what its JSON says of it, without the address of the request in any encoding. */
function rejectedProblem(status: number, { operation, url }: SentRequest, body: unknown): Problem {
  // Any other path may be the host's, and no URL-encoding.
  const address = operation === 'lookup' ? decodeURIComponent(contactIn(new URL(url).pathname)) : '';
  const told = isRecord(body) ? TOLD_IN.map((name) => body[name]) : [];
  const text = told.filter((one) => typeof one === 'string').join('; ');
  const shown = hideSecrets(untrustedText(text, 600), [address], 200);
  return {
    ...partnerProblem(operation, `the service rejected the request with status ${status}`),
    cause: `${operation} rejected`,
    received: shown === '' ? undefined : shown,
  };
}

/** A URL as it was sent, without its query and the address of a contact. */
export function shownUrl(url: string): string {
  const { origin, pathname } = new URL(url);
  return origin + withoutContact(pathname);
}
