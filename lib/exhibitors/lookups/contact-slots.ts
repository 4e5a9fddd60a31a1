import { ExhibitorError } from '../../errors/exhibitor.error.js';
import type { Deadline } from '../../time/deadline.js';
import type { LookupSubject } from './lookup-cache.js';

/** Lookups of one contact under way at a tenant. */
const SLOTS = 4;

/** Further lookups of one contact that wait; more are refused. */
const MAX_WAITING = 100;

interface Contact {
  active: number;
  /** Starts the lookups that wait, in their order. */
  waiting: Set<() => void>;
}

/** Limits the lookups of one contact, so that one person cannot take all requests of a tenant. */
export class ContactSlots {
  readonly #contacts = new Map<string, Contact>();

  /**
   * Runs a lookup when there is a slot for it.
   *
   * @throws {ExhibitorError} `deadline_exceeded` or `aborted` where the call is over before; `service_unavailable` where too
   * many wait
   */
  async run<R>(
    { tenant, contactEmail }: LookupSubject,
    deadline: Deadline,
    work: () => Promise<R>,
  ): Promise<R> {
    const key = `${tenant.stateKey.id}:${contactEmail}`;
    const contact = this.#contacts.get(key) ?? { active: 0, waiting: new Set() };
    this.#contacts.set(key, contact);
    if (contact.active < SLOTS) {
      contact.active += 1;
    } else {
      await waitIn(contact.waiting, tenant.key, deadline);
    }
    try {
      return await work();
    } finally {
      this.#leave(key, contact);
    }
  }

  /** Gives the slot to the lookup that has waited longest. */
  #leave(key: string, contact: Contact): void {
    const [next] = contact.waiting;
    if (next !== undefined) {
      next();
      return;
    }
    contact.active -= 1;
    if (contact.active === 0) {
      this.#contacts.delete(key);
    }
  }
}

function waitIn(waiting: Set<() => void>, tenant: string, deadline: Deadline): Promise<void> {
  if (waiting.size >= MAX_WAITING) {
    const details = { tenant, attempts: 0, retryAfterMs: 1_000 };
    throw new ExhibitorError('service_unavailable', 'not sent: too many lookups of one contact', details);
  }
  if (deadline.isOver) {
    throw deadline.failure({ tenant, attempts: 0 });
  }
  return new Promise((resolve, reject) => {
    const start = (): void => {
      waiting.delete(start);
      forget();
      resolve();
    };
    const forget = deadline.onOver(() => {
      waiting.delete(start);
      reject(deadline.failure({ tenant, attempts: 0 }));
    });
    waiting.add(start);
  });
}
