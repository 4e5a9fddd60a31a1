import { LoginFailedError, type LoginFailureReason } from '../errors/login-failed.error.js';
import { callbackError, wrongCallbackIssuer } from '../problems/login-problems.js';
import type { ProblemLog } from '../problems/problem-log.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { presentableError } from '../tokens/token-reply.js';
import { isHybrid, type BrowserLogin } from './browser-login.js';
import type { CallbackParameters } from './callback-parameters.js';
import type { PendingLogin } from './pending-login.js';

/** Reasons of their own: what a user did, or what `prompt=none` cannot do (OIDC Core §3.1.2.6). */
const REASON_BY_ERROR: Readonly<Record<string, LoginFailureReason>> = {
  access_denied: 'denied',
  login_required: 'login_required',
  interaction_required: 'interaction_required',
  consent_required: 'consent_required',
  account_selection_required: 'account_selection_required',
};

/** An authorization response whose state was matched. */
interface Response {
  tenant: Tenant;
  login: BrowserLogin;
  pending: PendingLogin;
  parameters: CallbackParameters;
}

/**
 * Refuses a response of another issuer, and one that is an error. Both are reported to the operator as unverified, since
 * anybody can send a browser here; what a user did is not reported.
 *
 * @param requireIss true where a response of the code flow must have `iss`
 * @throws {LoginFailedError} `issuer`, `denied`, `login_required`, …, `provider`
 */
export function checkResponse(log: ProblemLog, response: Response, requireIss: boolean): void {
  checkIssuer(log, response, requireIss);
  checkError(log, response);
}

/** RFC 9207 §2.4. A hybrid response without `iss` is bound to its issuer by the front-channel ID token. */
function checkIssuer(
  log: ProblemLog,
  { tenant, login, pending, parameters: { iss } }: Response,
  requireIss: boolean,
): void {
  const isRequired = requireIss && !isHybrid(pending);
  if (iss === undefined ? !isRequired : iss === login.issuer) {
    return;
  }
  log.report(tenant, wrongCallbackIssuer(login.issuer, iss));
  throw new LoginFailedError('issuer', 'the login is refused: issuer', { tenant: tenant.key });
}

function checkError(log: ProblemLog, { tenant, pending, parameters }: Response): void {
  const { error, errorDescription: description } = parameters;
  if (error === undefined) {
    return;
  }
  const { state, nonce, verifier } = pending;
  const refusal = presentableError(error, description, [state, nonce, verifier]);
  const reason = (Object.hasOwn(REASON_BY_ERROR, error) ? REASON_BY_ERROR[error] : undefined) ?? 'provider';
  if (reason === 'provider') {
    log.report(tenant, callbackError(refusal));
  }
  throw new LoginFailedError(reason, `the login is refused: ${reason}`, { tenant: tenant.key, ...refusal });
}
