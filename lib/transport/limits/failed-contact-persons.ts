import type { RequestResult } from '../outcome.js';

/** Persons that are remembered. Circuits open long before the lookups of so many have failed. */
const MAX = 1_000;

/**
 * E-mail addresses of the contact persons whose lookups failed since the last good one. A person may ask for events that make
 * the service fail; that says nothing about the lookups of others. So a 5xx or a timeout counts once for each person. A
 * connection that is refused or reset always counts: no request can cause it.
 */
export class FailedContactPersons {
  readonly #emails = new Set<string>();

  /** Records the result of a request. Answers false for a further failure of a person, which does not count. */
  record({ health, outcome, contact }: RequestResult): boolean {
    if (contact !== undefined && health === 'good') {
      this.#emails.clear();
    }
    const isNetwork = outcome.kind === 'failed' && outcome.why === 'network';
    if (contact === undefined || health !== 'bad' || isNetwork) {
      return true;
    }
    const isFirst = !this.#emails.has(contact);
    if (this.#emails.size < MAX) {
      this.#emails.add(contact);
    }
    return isFirst;
  }
}
