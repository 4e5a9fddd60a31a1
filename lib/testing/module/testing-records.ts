import { defaultExhibitorId } from '../../exhibitors/exhibitor-id.js';
import type { ExhibitorTestingWorld } from './testing-world.interface.js';

export class TestingRecords<T> {
  readonly idOf: (exhibitor: T) => string | undefined;
  readonly #events = new Map<string, readonly T[]>();
  readonly #contacts = new Map<string, readonly (string | T)[]>();

  /** @throws Error as {@link setContact} */
  constructor({ events = {}, contacts = {}, exhibitorId }: ExhibitorTestingWorld<T>) {
    this.idOf = exhibitorId ?? defaultExhibitorId;
    for (const [eventId, records] of Object.entries(events)) {
      this.setExhibitors(eventId, records);
    }
    for (const [email, byEvent] of Object.entries(contacts)) {
      for (const [eventId, exhibitors] of Object.entries(byEvent)) {
        this.setContact(eventId, email, exhibitors);
      }
    }
  }

  setExhibitors(eventId: string, records: readonly T[]): void {
    this.#events.set(eventId, [...records]);
  }

  /** @throws Error for an id that the event does not have: a mistake in the test. The event may remove it later */
  setContact(eventId: string, email: string, exhibitors: readonly (string | T)[]): void {
    for (const one of exhibitors) {
      if (typeof one === 'string' && this.#events.has(eventId) && this.#find(eventId, one).length === 0) {
        throw unknownId(eventId, one);
      }
    }
    this.#contacts.set(JSON.stringify([eventId, email]), [...exhibitors]);
  }

  /** `undefined` where there is no such event. */
  ofEvent(eventId: string): readonly T[] | undefined {
    return this.#events.get(eventId);
  }

  /** @throws Error where the contact has ids of an event that was never set */
  ofContact(eventId: string, email: string): readonly T[] {
    const named = this.#contacts.get(JSON.stringify([eventId, email])) ?? [];
    return named.flatMap((one) => (typeof one === 'string' ? this.#find(eventId, one) : [one]));
  }

  #find(eventId: string, id: string): T[] {
    const event = this.#events.get(eventId);
    if (event === undefined) {
      throw unknownId(eventId, id);
    }
    return event.filter((record) => this.idOf(record) === id);
  }
}

function unknownId(eventId: string, id: string): Error {
  return new Error(
    `ExhibitorTestingModule: a contact has the exhibitor '${id}', which the event '${eventId}' does not have`,
  );
}
