import type { OperatorProblem } from '../tenants/operator-log.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { scrub } from './scrub.js';

/** Characters of an OAuth error code that are shown. */
const LONGEST_ERROR_CODE = 100;

/** `error` and `error_description` of the provider, without secrets. */
export interface OauthRefusal {
  oauthError: string;
  oauthErrorDescription: string | undefined;
}

/** @param hidden values of the request that must not be shown */
export function scrubRefusal(
  { error, description }: { error: string; description: string | undefined },
  hidden: readonly string[],
): OauthRefusal {
  return {
    oauthError: scrub(error, hidden, LONGEST_ERROR_CODE),
    oauthErrorDescription: description === undefined ? undefined : scrub(description, hidden),
  };
}

/** Options to look at, by OAuth error (RFC 6749 §5.2), as paths below the client: `clientSecret`, `login.clientSecret`. */
const OPTIONS_BY_ERROR: Readonly<Record<string, readonly string[]>> = {
  invalid_client: ['clientSecret', 'clientId'],
  unauthorized_client: ['clientId'],
  unsupported_grant_type: ['clientId'],
  invalid_scope: ['scope'],
};

/**
 * The refusal of a client by the token endpoint, for the operator.
 *
 * @param client `''` for the API client, `'login.'` for the login client: where its options are
 */
export function clientProblem(tenant: Tenant, client: '' | 'login.', refusal: OauthRefusal): OperatorProblem {
  const { oauthError } = refusal;
  const options = Object.hasOwn(OPTIONS_BY_ERROR, oauthError) ? OPTIONS_BY_ERROR[oauthError] : undefined;
  const name = client === '' ? 'API' : 'login';
  const auth = client === '' ? tenant.clientAuth : tenant.login?.clientAuth;
  // A client with a private key has no secret.
  const pathOf = (option: string): string =>
    client + (option === 'clientSecret' && typeof auth === 'object' ? 'clientAuth' : option);
  return {
    // A code that the provider made up must not have a limit of its own.
    cause: `${name} client: ${options === undefined ? 'other' : oauthError}`,
    options:
      options === undefined
        ? [client === '' ? tenant.tokenUrlOption : tenant.endpointOption('token'), `${client}clientId`]
        : options.map(pathOf),
    message: `the token endpoint refused the ${name} client: ${describeRefusal(refusal)}`,
  };
}

/** `invalid_client (Unknown client)` */
export function describeRefusal({ oauthError, oauthErrorDescription }: OauthRefusal): string {
  return oauthErrorDescription === undefined ? oauthError : `${oauthError} (${oauthErrorDescription})`;
}
