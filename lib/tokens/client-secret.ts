import { ExhibitorError } from '../errors/exhibitor.error.js';
import { untrustedText } from '../model/untrusted-text.js';
import type { SecretSource } from '../options/client-auth-option.js';
import type { ProblemLog } from '../problems/problem-log.service.js';
import type { Tenant } from '../tenants/tenant.js';
import type { Deadline } from '../time/deadline.js';
import type { OAuthClient } from './client-authentication.js';

/** Names an option with a secret, and the code of the error where its function fails. */
export interface SecretOption {
  name: 'clientSecret' | 'login.clientSecret';
  code: 'token_unavailable' | 'service_unavailable';
}

const API_SECRET: SecretOption = { name: 'clientSecret', code: 'token_unavailable' };

/**
 * The API client of a tenant with its secret of now.
 *
 * @throws {ExhibitorError} `token_unavailable` where the secret function fails; `deadline_exceeded`
 */
export function readApiClient(tenant: Tenant, deadline: Deadline, log: ProblemLog): Promise<OAuthClient> {
  const { settings, tokenUrl } = tenant;
  const { clientId: id, clientSecret, clientAuth: auth } = settings;
  // The API client knows no issuer: only a login has one.
  const client = { id, auth, tokenUrl, audience: tokenUrl };
  return withSecret(client, clientSecret, API_SECRET, tenant, deadline, log);
}

/** The client with its secret of now, where it has one. Errors as {@link readSecret}. */
export async function withSecret(
  client: OAuthClient,
  source: SecretSource | undefined,
  option: SecretOption,
  tenant: Tenant,
  deadline: Deadline,
  log: ProblemLog,
): Promise<OAuthClient> {
  if (typeof client.auth === 'object' || source === undefined) {
    return client;
  }
  return { ...client, secret: await readSecret(source, option, tenant, deadline, log) };
}

/** True for the words by which a provider refuses a secret. That of Keycloak is `unauthorized_client`. */
export function refusesSecret(oauthError: string | undefined): boolean {
  return oauthError === 'invalid_client' || oauthError === 'unauthorized_client';
}

/**
 * After {@link refusesSecret}: the client with a newer secret, where the host's function has one. The same secret would be refused
 * again, and some providers lock a client out after several failures.
 */
export async function newerClient(
  client: OAuthClient,
  source: SecretSource | undefined,
  read: () => Promise<OAuthClient>,
): Promise<OAuthClient | undefined> {
  if (typeof source !== 'function') {
    return undefined;
  }
  const newest = await read();
  return newest.secret === client.secret ? undefined : newest;
}

/**
 * The secret of a client; a function of the host is called each time, within the deadline. A function that fails is reported
 * to the operator.
 *
 * @throws {ExhibitorError} `code` of the option where the function fails or returns no secret, with its error as `cause`;
 * `deadline_exceeded`
 */
async function readSecret(
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
    log.report(tenant, { cause: `${name} function`, options: [name], message: `the function ${message}` });
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
  return error instanceof Error ? untrustedText(error.name) : 'not an Error';
}
