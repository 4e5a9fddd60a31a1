import type { Claims } from '../oidc/user-claims.js';
import { claimsRemoved } from '../problems/login-problems.js';
import { ThrottledLog } from '../problems/throttled-log.js';
import type { Tenant } from '../tenants/tenant.js';
import type { Clock } from '../time/clock.js';

/** About the authentication, not the person: hosts check them, so they are always kept. */
const ALWAYS_KEPT = ['auth_time', 'acr'];

export class KeptClaims {
  /** One line for each tenant. */
  readonly #log: ThrottledLog;

  constructor(clock: Clock) {
    this.#log = new ThrottledLog(clock, Infinity);
  }

  /** The claims that `keepClaims` names; all without that option. */
  chosen({ login }: Tenant, claims: Claims): Claims {
    const keep = login?.keepClaims;
    return keep === undefined ? claims : only(claims, [...ALWAYS_KEPT, ...keep]);
  }

  /** What is kept of chosen claims that are too large; a warning names the others. */
  fewest({ key }: Tenant, chosen: Claims): Claims {
    const claims = only(chosen, ALWAYS_KEPT);
    const removed = Object.keys(chosen).filter((name) => !Object.hasOwn(claims, name));
    if (removed.length > 0) {
      this.#log.warn(claimsRemoved(key, removed), key);
    }
    return claims;
  }
}

function only(claims: Claims, names: readonly string[]): Claims {
  return Object.fromEntries(Object.entries(claims).filter(([name]) => names.includes(name)));
}
