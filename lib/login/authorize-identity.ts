import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { Claims } from '../oidc/user-info.service.js';
import type { Refusal } from '../config/problems/problem.interface.js';
import type { ProblemLog } from '../config/problems/problem-log.service.js';
import type { Tenant } from '../config/tenant.js';
import type { Deadline } from '../call/deadline.js';

/** Why a user is refused for whom {@link authorizedIdentity} answers none. */
export const NOT_AUTHORIZED: Refusal = {
  reason: 'not_authorized',
  option: 'login.authorize',
  detail: 'this function did not answer true',
  isWarning: true,
};

/** About the authentication, not the person: hosts check them, so they are always kept. */
const ALWAYS_KEPT = ['auth_time', 'acr'];

/**
 * The identity of a verified login, or of a new bearer token, as it is kept: with the claims of `login.keepClaims`. `undefined` where
 * `login.authorize`, the host's final check, refuses it; that function sees all claims.
 *
 * @throws {ExhibitorError} `service_unavailable` where that function throws
 */
export async function authorizedIdentity(
  tenant: Tenant,
  identity: ExhibitorIdentity,
  deadline: Deadline,
  log: ProblemLog,
): Promise<ExhibitorIdentity | undefined> {
  const { login } = tenant;
  try {
    const asked = async (): Promise<unknown> => login?.authorize === undefined || login.authorize(identity);
    if ((await deadline.race(asked())) !== true) {
      return undefined;
    }
  } catch (error) {
    if (isExhibitorError(error)) {
      throw error;
    }
    const place = { tenant, option: 'login.authorize' };
    throw log.hostError(place, error, 'service_unavailable', "the host's authorize function failed");
  }
  const { claims } = identity;
  const keep = login?.keepClaims;
  return { ...identity, claims: keep === undefined ? claims : keptClaims(claims, keep) };
}

/** The claims of these names, and those that are always kept. */
export function keptClaims(claims: Claims, names: readonly string[] = []): Claims {
  const kept = [...ALWAYS_KEPT, ...names];
  return Object.fromEntries(Object.entries(claims).filter(([name]) => kept.includes(name)));
}
