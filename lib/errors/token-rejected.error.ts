import { ExhibitorError, type ExhibitorErrorDetails } from './exhibitor.error.js';

/** The token endpoint refused permanently (`token_rejected`, RFC 6749 §5.2), for example with `invalid_client`. */
export class TokenRejectedError extends ExhibitorError {
  declare readonly code: 'token_rejected';
  /** `error` of the reply. */
  readonly oauthError: string;
  /** `error_description` of the reply, without secrets of the request. */
  readonly oauthErrorDescription: string | undefined;

  constructor(oauthError: string, oauthErrorDescription: string | undefined, details: ExhibitorErrorDetails) {
    super('token_rejected', `the token endpoint refused: ${oauthError}`, details);
    this.oauthError = oauthError;
    this.oauthErrorDescription = oauthErrorDescription;
  }
}
