import type { ExhibitorErrorCode } from './error-codes.js';
import { ExhibitorError, type ExhibitorErrorDetails } from './exhibitor.error.js';
import type { AnyExhibitorError } from './is-exhibitor-error.js';
import { LoginFailedError, type LoginFailureReason } from './login-failed.error.js';
import { TokenRejectedError } from './token-rejected.error.js';

/**
 * A failure that several callers share. Each caller gets an error of its own, with the key of its own tenant. The first error itself is
 * not kept: its stack takes 7 kB.
 */
export interface Failure {
  readonly code: ExhibitorErrorCode;
  readonly message: string;
  readonly status?: number | undefined;
  readonly reason?: LoginFailureReason | undefined;
  readonly oauthError?: string | undefined;
  readonly oauthErrorDescription?: string | undefined;
  readonly isOfHost?: boolean | undefined;
  readonly cause?: unknown;
}

export function failureOf(error: AnyExhibitorError): Failure {
  const { code, message, status, isOfHost, cause } = error;
  const reason = error.code === 'login_failed' ? error.reason : undefined;
  const hasOAuthError = error.code === 'login_failed' || error.code === 'token_rejected';
  const { oauthError, oauthErrorDescription } = hasOAuthError ? error : {};
  return { code, message, status, reason, oauthError, oauthErrorDescription, isOfHost, cause };
}

/** The failure as the error of one more caller. */
export function errorOf(failure: Failure, own: ExhibitorErrorDetails): ExhibitorError {
  const { code, message, status, reason, oauthError, oauthErrorDescription, isOfHost, cause } = failure;
  const details = { status, isOfHost, cause, ...own };
  if (reason !== undefined) {
    return new LoginFailedError(reason, message, { ...details, oauthError, oauthErrorDescription });
  }
  return oauthError === undefined
    ? new ExhibitorError(code, message, details)
    : new TokenRejectedError(oauthError, oauthErrorDescription, details);
}
