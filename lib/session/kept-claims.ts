import { untrustedText } from '../model/untrusted-text.js';
import type { Claims } from '../oidc/user-claims.js';
import { ThrottledLog } from '../problems/throttled-log.js';
import type { Tenant } from '../tenants/tenant.js';
import type { Clock } from '../time/clock.js';

/** About the authentication, not the person: hosts check them, so they are always kept. */
const ALWAYS_KEPT = ['auth_time', 'acr'];

/** Claims that a line of the log names. */
const MOST_NAMED = 10;

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
      // The provider chooses the names of claims.
      const names = removed.slice(0, MOST_NAMED).map((name) => untrustedText(name));
      const rest = removed.length > MOST_NAMED ? ` and ${removed.length - MOST_NAMED} more` : '';
      this.#log.warn(
        `tenant ${key}: the identity is too large to be kept; these claims were removed: ${names.join(', ')}${rest}. ` +
          'List the claims you need in login.keepClaims.',
        key,
      );
    }
    return claims;
  }
}

function only(claims: Claims, names: readonly string[]): Claims {
  return Object.fromEntries(Object.entries(claims).filter(([name]) => names.includes(name)));
}
