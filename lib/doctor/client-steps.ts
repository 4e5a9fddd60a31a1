import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { CodeExchange } from '../login/code-exchange.service.js';
import { createPendingLogin, type PendingLogin } from '../login/pending-login.js';
import { shownUrl } from '../problems/address-problems.js';
import { secretAdvice } from '../problems/boot-advice.js';
import { problemText } from '../problems/problem-log.service.js';
import { browserLoginOf, type BrowserLogin } from '../tenants/tenant.js';
import type { Deadline } from '../time/deadline.js';
import { TokenService } from '../tokens/token.service.js';
import type { Diagnosis } from './diagnosis.js';
import { unknown, wrong } from './finding.js';

/** No provider has issued it. */
const NO_CODE = 'nestjs-exhibitor-doctor-asks-whether-you-know-this-client';

/** An access token of the REST API. */
export async function token(diagnosis: Diagnosis): Promise<string> {
  const { tenant } = diagnosis;
  return tryClient(diagnosis, '', tenant.tokenUrl, async (deadline) => {
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
  const { tenant } = diagnosis;
  const pending = pendingLogin(browserLoginOf(tenant));
  return tryClient(diagnosis, 'login.', diagnosis.urlOf('token'), async (deadline) => {
    try {
      await diagnosis.context.get(CodeExchange).redeem(tenant, pending, NO_CODE, deadline);
    } catch (error) {
      const oauthError: unknown = Object(error)['oauthError'];
      if (oauthError === 'invalid_request') {
        throw unknown('the token endpoint answers invalid_request, which says nothing of the client');
      }
      if (oauthError !== 'invalid_grant') {
        throw error;
      }
    }
  });
}

export function pendingLogin({ redirectUri, responseType, maxAge }: BrowserLogin): PendingLogin {
  const start = { tenant: '', provider: '', redirectUri, responseType, maxAge, startedAt: 0, former: [] };
  return createPendingLogin(start, '0');
}

/** Whether the token endpoint accepts a client, whose options begin with `prefix`. The service reports which are wrong. */
async function tryClient(
  diagnosis: Diagnosis,
  prefix: '' | 'login.',
  url: string,
  grant: (deadline: Deadline) => Promise<void>,
): Promise<string> {
  const { tenant, problems, knowsClient } = diagnosis;
  const address = shownUrl(url);
  try {
    await diagnosis.call(grant);
    return `${address} accepts the ${prefix === '' ? 'API' : 'login'} client`;
  } catch (error) {
    if (!isExhibitorError(error) || error.code === 'aborted') {
      throw error;
    }
    const { code, status = 0, attempts } = error;
    if (code === 'deadline_exceeded' && attempts === 0) {
      throw wrong(`${prefix}clientSecret`, 'the function answers no secret in time');
    }
    const urlOption = prefix === '' ? tenant.tokenUrlOption : tenant.endpointOption('token');
    if ([404, 405].includes(status) || Object(error)['oauthError'] === `http_${status}`) {
      throw wrong(urlOption, `${address} answers ${status}: it is no token endpoint`);
    }
    const { first } = problems;
    const text = first === undefined ? `${error.message}: try again later` : problemText(first);
    const { clientSecret } = (prefix === '' ? tenant.settings : tenant.login) ?? {};
    const advice = secretAdvice(`${prefix}clientSecret`, clientSecret);
    const message = [text.includes(address) ? text : `${address}: ${text}`, ...advice].join('; ');
    // A client that the authorize endpoint knows is not wrong.
    const possible = first?.options.filter((option) => option !== 'login.clientId' || !knowsClient) ?? [];
    // An address that refuses a client is that of a token endpoint.
    const options = possible.length > 1 ? possible.filter((option) => option !== urlOption) : possible;
    throw options.length === 0 ? unknown(message) : wrong(options.join(', '), message);
  }
}
