import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { LoginFailedError } from '../errors/login-failed.error.js';
import { TokenRejectedError } from '../errors/token-rejected.error.js';
import { CodeExchange } from '../login/code-exchange.service.js';
import { createPendingLogin, type PendingLogin } from '../login/pending-login.js';
import { shownUrl } from '../problems/address-problems.js';
import { secretAdvice } from '../problems/boot-advice.js';
import { refusedClient } from '../problems/token-endpoint-problems.js';
import { browserLoginOf, Tenant, type BrowserLogin } from '../tenants/tenant.js';
import type { Deadline } from '../time/deadline.js';
import { refusesSecret } from '../tokens/client-secret.js';
import { TokenService } from '../tokens/token.service.js';
import type { Diagnosis } from './diagnosis.js';
import { unknown, wrong } from './finding.js';

/** No provider has issued it. */
const NO_CODE = 'nestjs-exhibitor-doctor-asks-whether-you-know-this-client';

/** Asks the token endpoint. It fails where the client of this tenant is refused. */
type Grant = (tenant: Tenant, deadline: Deadline) => Promise<void>;

/** An access token of the REST API. */
export async function token(diagnosis: Diagnosis): Promise<string> {
  return tryClient(diagnosis, '', diagnosis.tenant.tokenUrl, async (tenant, deadline) => {
    const { accessToken } = await diagnosis.context.get(TokenService).tokenFor(tenant, deadline);
    diagnosis.accessToken = accessToken;
  });
}

/** The client of a login; asked once. */
export function loginClient(diagnosis: Diagnosis): Promise<string> {
  diagnosis.loginClient ??= tryLoginClient(diagnosis);
  return diagnosis.loginClient;
}

/** It is refused before its code is looked at (RFC 6749 §5.2). */
async function tryLoginClient(diagnosis: Diagnosis): Promise<string> {
  const pending = pendingLogin(browserLoginOf(diagnosis.tenant));
  return tryClient(diagnosis, 'login.', diagnosis.urlOf('token'), async (tenant, deadline) => {
    try {
      await diagnosis.context.get(CodeExchange).redeem(tenant, pending, NO_CODE, deadline);
    } catch (error) {
      if (Object(error)['oauthError'] !== 'invalid_grant') {
        throw error;
      }
    }
  });
}

export function pendingLogin({ redirectUri, responseType, maxAge }: BrowserLogin): PendingLogin {
  const start = { tenant: '', provider: '', redirectUri, responseType, maxAge, startedAt: 0, former: [] };
  return createPendingLogin(start, '0');
}

/** Whether the token endpoint accepts a client, whose options begin with `prefix`. */
async function tryClient(
  diagnosis: Diagnosis,
  prefix: '' | 'login.',
  url: string,
  grant: Grant,
): Promise<string> {
  const { tenant } = diagnosis;
  try {
    await diagnosis.call(url, (deadline) => grant(tenant, deadline));
    return `${shownUrl(url)} accepts the ${prefix === '' ? 'API' : 'login'} client`;
  } catch (error) {
    const urlOption = prefix === '' ? tenant.tokenUrlOption : tenant.endpointOption('token');
    const isRefusal = error instanceof TokenRejectedError || error instanceof LoginFailedError;
    const { clientAuth, clientSecret } = (prefix === '' ? tenant.settings : tenant.login) ?? {};
    if (isExhibitorError(error) && error.code === 'deadline_exceeded' && error.attempts === 0) {
      throw wrong(`${prefix}clientSecret`, 'the function answers no secret in time');
    }
    if (!isRefusal || error.oauthError === undefined) {
      throw diagnosis.verdict(error, url);
    }
    const { status = 0, oauthError, oauthErrorDescription } = error;
    if (oauthError === `http_${status}` || [404, 405].includes(status)) {
      throw wrong(urlOption, `${shownUrl(url)} answers ${status}: it is no token endpoint`);
    }
    if (refusesSecret(oauthError) && typeof clientAuth !== 'object' && clientSecret !== undefined) {
      const auth = clientAuth === 'basic' ? 'post' : 'basic';
      const other = withAuth(tenant, prefix, auth);
      const [second] = await Promise.allSettled([diagnosis.call(url, (deadline) => grant(other, deadline))]);
      if (second.status === 'fulfilled') {
        throw wrong(`${prefix}clientAuth`, `the token endpoint accepts the client with '${auth}' only`);
      }
    }
    const { options, message } = refusedClient(tenant, prefix, { oauthError, oauthErrorDescription });
    // A client that the authorize endpoint knows is not wrong.
    const possible = options.filter((option) => option !== 'login.clientId' || !diagnosis.knowsClient);
    if (possible.length === 0 || (prefix === 'login.' && oauthError === 'invalid_request')) {
      throw unknown(message);
    }
    // The address answers.
    const suspects = possible.filter((option) => option !== urlOption);
    const advice = secretAdvice(`${prefix}clientSecret`, clientSecret);
    throw wrong((suspects.length > 0 ? suspects : possible).join(', '), [message, ...advice].join('; '));
  }
}

/** The tenant with another authentication of one of its clients. */
function withAuth(
  { key, settings, http, login }: Tenant,
  prefix: '' | 'login.',
  clientAuth: 'post' | 'basic',
): Tenant {
  const change = prefix === '' ? { clientAuth } : { login: login && { ...login, clientAuth } };
  return new Tenant(key, { ...settings, ...change }, http);
}
