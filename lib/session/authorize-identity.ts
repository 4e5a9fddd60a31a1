import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import { LoginFailedError } from '../errors/login-failed.error.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { Tenant } from '../tenants/tenant.js';
import type { Deadline } from '../time/deadline.js';

/** The final authorization check of the host, by the option `login.authorize`: of a login, and of each new bearer token. */
export async function isAuthorized(
  { key, login }: Tenant,
  identity: ExhibitorIdentity,
  deadline: Deadline,
): Promise<boolean> {
  try {
    const asked = async (): Promise<unknown> => login?.authorize === undefined || login.authorize(identity);
    return (await deadline.race(asked())) === true;
  } catch (cause) {
    if (isExhibitorError(cause)) {
      throw cause;
    }
    throw new ExhibitorError('service_unavailable', "the host's authorize function failed", {
      tenant: key,
      cause,
    });
  }
}

export function notAuthorized(tenant: string): LoginFailedError {
  return new LoginFailedError('not_authorized', 'the login is refused: not_authorized', { tenant });
}
