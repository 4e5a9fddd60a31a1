import { ExhibitorError, type ExhibitorErrorDetails } from './exhibitor.error.js';

/**
 * Reason of a refusal. `state` includes a callback that belongs to no started login. `login_required` and the three after it
 * are the words of the provider (OIDC Core §3.1.2.6), mostly after `prompt=none`. docs/login.md lists cause and remedy of each.
 */
export type LoginFailureReason =
  | 'state'
  | 'issuer'
  | 'subject'
  | 'audience'
  | 'issued'
  | 'expired'
  | 'algorithm'
  | 'signature'
  | 'nonce'
  | 'code_hash'
  | 'token_hash'
  | 'auth_time'
  | 'denied'
  | 'login_required'
  | 'interaction_required'
  | 'consent_required'
  | 'account_selection_required'
  | 'provider'
  | 'email_missing'
  | 'email_unverified'
  | 'not_authorized'
  | 'token_type';

/** Details of a refusal, where they are known. */
export interface LoginFailureDetails extends ExhibitorErrorDetails {
  /** `error` of the provider, without secrets. */
  oauthError?: string | undefined;
  /** `error_description` of the provider, without secrets. */
  oauthErrorDescription?: string | undefined;
}

/**
 * A login or a bearer token was refused (`login_failed`).
 *
 * @example
 * if (error instanceof LoginFailedError && error.reason === 'login_required') return startLogin();
 */
export class LoginFailedError extends ExhibitorError {
  declare readonly code: 'login_failed';
  readonly reason: LoginFailureReason;
  /**
   * `error` of the provider: of its token endpoint, or as the browser delivered it to the callback. Visitors are not told:
   * for logs only.
   */
  declare readonly oauthError?: string;
  /** `error_description` of the provider, without secrets of the request, at most 300 characters. */
  declare readonly oauthErrorDescription?: string;

  constructor(reason: LoginFailureReason, message: string, details?: LoginFailureDetails) {
    super('login_failed', message, details);
    this.reason = reason;
  }
}
