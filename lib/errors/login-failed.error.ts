import { ExhibitorError, type ExhibitorErrorDetails } from './exhibitor.error.js';

/** Reason of a refusal. `state` includes a callback that belongs to no pending login. */
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

/** A login or a bearer token was refused (`login_failed`). */
export class LoginFailedError extends ExhibitorError {
  readonly reason: LoginFailureReason;

  constructor(reason: LoginFailureReason, message: string, details?: ExhibitorErrorDetails) {
    super('login_failed', message, details);
    this.reason = reason;
  }
}
