import { ExhibitorError } from '../../errors/exhibitor.error.js';
import type { Call } from '../../call/call.js';
import { Semaphore } from '../../call/calls.service.js';
import type { LookupSubject } from './lookup-endpoint.js';

/** Lookups of one contact under way at a tenant, and further ones that wait. */
const LIMITS = { slots: 8, waiting: 100 };

/** Limits the lookups of one contact, so that one person cannot take all requests of a tenant. */
export class ContactSlots {
  readonly #contacts = new Map<string, Semaphore>();

  /**
   * Runs a lookup when there is a slot for it.
   *
   * @throws {ExhibitorError} `deadline_exceeded` or `aborted` where the call is over and has no slot; `service_unavailable`
   * where too many wait
   */
  async run<R>({ tenant, contactEmail }: LookupSubject, call: Call, work: () => Promise<R>): Promise<R> {
    const key = `${tenant.stateKey.id}:${contactEmail}`;
    const contact = this.#contacts.get(key) ?? new Semaphore(LIMITS);
    this.#contacts.set(key, contact);
    const entry = await contact.enter(call);
    const details = { tenant: tenant.key, attempts: 0 };
    if (entry === 'over') {
      throw call.failure(details);
    }
    if (entry === 'full') {
      const message = 'not sent: too many lookups of one contact';
      throw new ExhibitorError('service_unavailable', message, { ...details, retryAfterMs: 1_000 });
    }
    try {
      return await work();
    } finally {
      contact.leave();
      if (contact.isIdle) {
        this.#contacts.delete(key);
      }
    }
  }
}
