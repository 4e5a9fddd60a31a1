import {
  ConfigurationError,
  ExhibitorError,
  LoginFailedError,
  PaginationDriftError,
  TokenRejectedError,
  type ExhibitorErrorCode,
  type ExhibitorErrorDetails,
  type LoginFailureReason,
  type PaginationBreach,
} from '../../index.js';

/** Details of a failure, and the fields of the subclass of its code. */
interface FailureDetails extends ExhibitorErrorDetails {
  oauthError?: string;
  oauthErrorDescription?: string;
  reason?: LoginFailureReason;
  breach?: PaginationBreach;
  lastGoodPage?: number;
}

const SAID = 'a failure of this test';
const BREACH = { field: 'totalCount', expected: 1, seen: 2, page: 2 };

/** Codes have classes of their own where `isExhibitorError` narrows to one. */
export function createFailure(code: ExhibitorErrorCode, details: FailureDetails): ExhibitorError {
  const { oauthError, oauthErrorDescription, reason, breach, lastGoodPage, ...known } = details;
  switch (code) {
    case 'token_rejected':
      return new TokenRejectedError(oauthError ?? 'invalid_client', oauthErrorDescription, known);
    case 'pagination_drift':
      return new PaginationDriftError(breach ?? BREACH, lastGoodPage ?? 0, known);
    case 'configuration_invalid':
      return new ConfigurationError([{ path: 'tenant', expected: SAID }], known.tenant);
    case 'login_failed':
      return new LoginFailedError(reason ?? 'denied', SAID, { ...known, oauthError, oauthErrorDescription });
    default:
      return new ExhibitorError(code, SAID, known);
  }
}
