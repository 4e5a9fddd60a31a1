import { ExhibitorError } from '../errors/exhibitor.error.js';
import { isExhibitorError } from '../errors/is-exhibitor-error.js';
import type { ExhibitorIdentity } from '../model/exhibitor-identity.interface.js';
import type { Claims } from '../oidc/user-info.service.js';
import type { Tenant } from '../tenants/tenant.js';
import type { Deadline } from '../time/deadline.js';

/** About the authentication, not the person: hosts check them, so they are always kept. */
const ALWAYS_KEPT = ['auth_time', 'acr'];

/**
 * The identity of a verified login, or of a new bearer token, as it is kept: with the claims of `login.keepClaims`. `undefined` where
 * `login.authorize`, the host's final check, refuses it; that function sees all claims.
 */
export async function authorizedIdentity(
  { key, login }: Tenant,
  identity: ExhibitorIdentity,
  deadline: Deadline,
): Promise<ExhibitorIdentity | undefined> {
  try {
    const asked = async (): Promise<unknown> => login?.authorize === undefined || login.authorize(identity);
    if ((await deadline.race(asked())) !== true) {
      return undefined;
    }
  } catch (cause) {
    if (isExhibitorError(cause)) {
      throw cause;
    }
    throw new ExhibitorError('service_unavailable', "the host's authorize function failed", {
      tenant: key,
      cause,
    });
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
