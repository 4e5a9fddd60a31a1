import {
  ConfigurationError,
  ExhibitorError,
  LoginFailedError,
  PaginationDriftError,
  TokenRejectedError,
  type ConfigurationProblem,
  type ExhibitorErrorCode,
  type ExhibitorErrorDetails,
  type LoginFailureReason,
  type PaginationBreach,
} from '../../index.js';

/** Details of a failure, and the fields of the subclass of its code. */
interface FailureDetails extends ExhibitorErrorDetails {
  problems?: readonly ConfigurationProblem[];
  reason?: LoginFailureReason;
  oauthError?: string;
  oauthErrorDescription?: string;
  breach?: PaginationBreach;
  lastGoodPage?: number;
}

/** The error of this code, of the class that the services use. */
export function createFailure(code: ExhibitorErrorCode, details: FailureDetails): ExhibitorError {
  const { problems, reason, oauthError, oauthErrorDescription, breach, lastGoodPage, ...known } = details;
  switch (code) {
    case 'token_rejected':
      return new TokenRejectedError(oauthError ?? 'invalid_client', oauthErrorDescription, known);
    case 'login_failed':
      return new LoginFailedError(reason ?? 'denied', 'a failure of this test', known);
    case 'pagination_drift':
      return new PaginationDriftError(
        breach ?? { field: 'totalCount', expected: 1, seen: 2, page: 2 },
        lastGoodPage ?? 0,
        known,
      );
    case 'configuration_invalid':
      return new ConfigurationError(
        problems ?? [{ path: 'tenant', expected: 'a failure of this test' }],
        known.tenant,
      );
    default:
      return new ExhibitorError(code, 'a failure of this test', known);
  }
}
