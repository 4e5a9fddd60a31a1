import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { LoginFailedError } from '../errors/login-failed.error.js';

/**
 * A reply of the identity provider. One that cannot be used is a refusal (401); a provider that is slow, down or limits our
 * requests is not (503, 504).
 *
 * @param name the provider's endpoint, for the error message
 * @throws {LoginFailedError} `provider` where the reply is malformed
 * @throws {ExhibitorError} other errors of {@link Transport.send}
 */
export async function usableReply<R>(reply: Promise<R>, name: string): Promise<R> {
  try {
    return await reply;
  } catch (error) {
    const isMalformed = isExhibitorError(error) && error.code === 'malformed_response';
    throw isMalformed ? unusableReply(name, error.tenant) : error;
  }
}

export function unusableReply(name: string, tenant: string | undefined): LoginFailedError {
  return new LoginFailedError('provider', `${name}: the reply cannot be used`, { tenant });
}
