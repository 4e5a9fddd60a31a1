import type { Health, Outcome } from '../outcome.js';

/** Contacts that are remembered. Circuits open long before so many have failed. */
const MAX = 1_000;

/**
 * The contacts whose lookups failed since the last good one. A person may ask for events that make the service fail; that
 * says nothing about the lookups of others. So a 5xx or a timeout counts once for each contact. A connection that is refused
 * or reset always counts: no request can cause it.
 */
export class FailedContacts {
  readonly #contacts = new Set<string>();

  /** The health of a request as it counts: `undefined` for a further failure of a contact. */
  counted(health: Health, outcome: Outcome, contact: string | undefined): Health {
    if (contact === undefined || health === undefined) {
      return health;
    }
    if (health === 'good') {
      this.#contacts.clear();
      return health;
    }
    const isNetwork = outcome.kind === 'failed' && outcome.why === 'network';
    if (isNetwork) {
      return health;
    }
    if (this.#contacts.has(contact)) {
      return undefined;
    }
    if (this.#contacts.size < MAX) {
      this.#contacts.add(contact);
    }
    return health;
  }
}
