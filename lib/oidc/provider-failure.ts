import { isExhibitorError } from '../errors/exhibitor.error.js';
import { LoginFailedError } from '../errors/login-failed.error.js';

/**
 * What a failed request to the provider means for a login: a reply that is wrong in itself is a refusal
 * (`provider`, 401); a provider that is slow, down or throttled stays the failure it is (503, 504).
 */
export function providerFailure(error: unknown, what: string): unknown {
  const wrongReply = error === undefined || (isExhibitorError(error) && error.code === 'malformed_response');
  return wrongReply ? new LoginFailedError('provider', `${what}: the reply cannot be used`) : error;
}
