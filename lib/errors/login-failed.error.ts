import { ExhibitorError, type ExhibitorErrorDetails } from './exhibitor.error.js';

/** Why a login was refused. `state` also stands for a callback that belongs to no pending login. */
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
  | 'provider'
  | 'email_missing'
  | 'email_unverified'
  | 'not_authorized'
  | 'token_type';

/** A refusal at the callback or of a bearer token (`login_failed`), with its `reason`. */
export class LoginFailedError extends ExhibitorError {
  readonly reason: LoginFailureReason;

  constructor(reason: LoginFailureReason, message: string, details?: ExhibitorErrorDetails) {
    super('login_failed', message, details);
    this.reason = reason;
  }
}
