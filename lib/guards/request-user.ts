import type { HttpContext } from '../http/http-context.js';
import type { IdentityReader, SessionState } from '../session/identity-reader.service.js';
import { runSteps, settled, type MaybePromise, type Steps } from '../time/steps.js';
import { memoryOf } from './request-memory.js';

type Reader = Pick<IdentityReader, 'read'>;

/** The user of the request. Guards that ask for the same tenant read the session once. */
export function userOf(
  reader: Reader,
  http: HttpContext,
  tenantKey: string | undefined,
): MaybePromise<SessionState | undefined> {
  const { user } = memoryOf(http.request);
  // A guard or middleware of the host may have set another user meanwhile, a logout none.
  if (user !== undefined && user.tenantKey === tenantKey && user.session.identity === http.request.user) {
    return user.session;
  }
  return runSteps(readUser(reader, http, tenantKey));
}

function* readUser(
  reader: Reader,
  http: HttpContext,
  tenantKey: string | undefined,
): Steps<SessionState | undefined> {
  const found = yield* settled(reader.read(http, tenantKey));
  memoryOf(http.request).user = found && { tenantKey, session: found };
  return found;
}
