import type { ConfigurationError } from './configuration.error.js';
import type { ExhibitorErrorCode } from './error-codes.js';
import { EXHIBITOR_ERROR, type ExhibitorError } from './exhibitor.error.js';
import type { LoginFailedError } from './login-failed.error.js';
import type { PaginationDriftError } from './pagination-drift.error.js';
import type { TokenRejectedError } from './token-rejected.error.js';

/** The codes whose errors have fields of their own. */
type ErrorWithFields = ConfigurationError | LoginFailedError | PaginationDriftError | TokenRejectedError;

/** An error of this package. A comparison of its `code` tells TypeScript the class, and with it the fields. */
export type AnyExhibitorError =
  | ErrorWithFields
  | (ExhibitorError & { readonly code: Exclude<ExhibitorErrorCode, ErrorWithFields['code']> });

/**
 * True for an {@link ExhibitorError}, also for one of another copy of this package in the same process, such as one below a
 * linked package, for which `instanceof` is false.
 *
 * @example
 * if (isExhibitorError(error) && error.code === 'login_failed') console.warn(error.reason);
 */
export function isExhibitorError(error: unknown): error is AnyExhibitorError {
  return typeof error === 'object' && error !== null && EXHIBITOR_ERROR in error;
}
