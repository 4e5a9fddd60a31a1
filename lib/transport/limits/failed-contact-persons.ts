import type { Health, Outcome } from '../outcome.js';

/** Persons that are remembered. Circuits open long before the lookups of so many have failed. */
const MAX = 1_000;

/**
 * E-mail addresses of the contact persons whose lookups failed since the last good one. A person may ask for events that make
 * the service fail; that says nothing about the lookups of others. So a 5xx or a timeout counts once for each person. A
 * connection that is refused or reset always counts: no request can cause it.
 */
export class FailedContactPersons {
  readonly #emails = new Set<string>();

  /** The health of a request as it counts: `undefined` for a further failure of a person. */
  counted(health: Health, outcome: Outcome, contactEmail: string | undefined): Health {
    if (contactEmail === undefined || health === undefined) {
      return health;
    }
    if (health === 'good') {
      this.#emails.clear();
      return health;
    }
    const isNetwork = outcome.kind === 'failed' && outcome.why === 'network';
    if (isNetwork) {
      return health;
    }
    if (this.#emails.has(contactEmail)) {
      return undefined;
    }
    if (this.#emails.size < MAX) {
      this.#emails.add(contactEmail);
    }
    return health;
  }
}
