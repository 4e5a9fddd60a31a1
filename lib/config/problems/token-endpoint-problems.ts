import { shownUrl } from './address-problems.js';
import type { EndpointPaths, Problem } from './problem.interface.js';

/** An OAuth error (RFC 6749 §5.2) of the provider, without secrets. */
export interface OAuthFailure {
  oauthError: string;
  oauthErrorDescription: string | undefined;
}

/** The two clients of a tenant, by where their options are. */
type ClientPath = '' | 'login.';

/** What is known of the options of a tenant's clients. */
interface ClientOptions extends EndpointPaths {
  /** Of the API client. */
  readonly tokenUrl: string;
  readonly settings: {
    readonly clientAuth?: unknown;
    readonly login?: { readonly clientAuth?: unknown } | undefined;
  };
}

/** Options to look at, by OAuth error (RFC 6749 §5.2), as paths below the client: `clientSecret`, `login.clientSecret`. */
const OPTIONS_BY_ERROR: Readonly<Record<string, readonly string[]>> = {
  invalid_client: ['clientSecret', 'clientId'],
  // Keycloak answers a wrong secret with it, and an unknown client with `invalid_client`.
  unauthorized_client: ['clientSecret', 'clientId'],
  unsupported_grant_type: ['clientId'],
  invalid_scope: ['scope'],
};

/**
 * The token endpoint refused a client.
 *
 * @param client `''` for the API client, `'login.'` for the login client
 */
export function refusedClient(
  tenant: ClientOptions,
  client: ClientPath,
  failure: OAuthFailure & { readonly status?: number | undefined },
): Problem {
  const { oauthError, status } = failure;
  const known = Object.hasOwn(OPTIONS_BY_ERROR, oauthError) ? OPTIONS_BY_ERROR[oauthError] : undefined;
  const name = client === '' ? 'API' : 'login';
  const { settings } = tenant;
  const auth = client === '' ? settings.clientAuth : settings.login?.clientAuth;
  // A client with a private key has no secret.
  const pathOf = (option: string): string =>
    client + (option === 'clientSecret' && typeof auth === 'object' ? 'clientAuth' : option);
  // A 404, and a reply without an OAuth error, are of another address than that of a token endpoint.
  const isElsewhere = known === undefined && (status === 404 || oauthError === `http_${status}`);
  const address = client === '' ? tenant.tokenUrlOption : tenant.endpointOption('token');
  const place = isElsewhere && client === '' ? ` ${shownUrl(tenant.tokenUrl)}` : '';
  return {
    // A code that the provider made up must not have a limit of its own.
    cause: `${name} client: ${known === undefined ? 'other' : oauthError}`,
    options: isElsewhere ? [address] : (known ?? ['clientId']).map(pathOf),
    message: `the token endpoint${place} refused the ${name} client: ${describeFailure(failure)}`,
  };
}

/** `invalid_client (Unknown client)` */
export function describeFailure({ oauthError, oauthErrorDescription }: OAuthFailure): string {
  return oauthErrorDescription === undefined ? oauthError : `${oauthError} (${oauthErrorDescription})`;
}
