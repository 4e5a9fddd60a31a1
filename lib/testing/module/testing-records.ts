import { defaultExhibitorId } from '../../exhibitors/exhibitor-id.js';
import type { ExhibitorTestingWorld } from './testing-world.interface.js';

export class TestingRecords<T> {
  readonly idOf: (exhibitor: T) => string | undefined;
  readonly #events = new Map<string, readonly T[]>();
  readonly #contacts = new Map<string, readonly (string | T)[]>();
  /** Ids that an event has or had: a contact may name an exhibitor that was removed, but none that never was there. */
  readonly #knownIds = new Map<string, Set<string>>();

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
    const known = this.#knownIds.get(eventId) ?? new Set();
    for (const record of records) {
      known.add(this.idOf(record) ?? '');
    }
    this.#knownIds.set(eventId, known);
  }

  setContact(eventId: string, email: string, exhibitors: readonly (string | T)[]): void {
    this.#contacts.set(JSON.stringify([eventId, email]), [...exhibitors]);
  }

  /** `undefined` where there is no such event. */
  ofEvent(eventId: string): readonly T[] | undefined {
    return this.#events.get(eventId);
  }

  /** @throws Error where the contact has an id that the event never had: a mistake in the test */
  ofContact(eventId: string, email: string): readonly T[] {
    const named = this.#contacts.get(JSON.stringify([eventId, email])) ?? [];
    return named.flatMap((one) => this.#find(eventId, one));
  }

  #find(eventId: string, one: string | T): T[] {
    if (typeof one !== 'string') {
      return [one];
    }
    if (this.#knownIds.get(eventId)?.has(one) !== true) {
      throw new Error(
        `ExhibitorTestingModule: a contact has the exhibitor '${one}', which the event '${eventId}' does not have`,
      );
    }
    return (this.#events.get(eventId) ?? []).filter((record) => this.idOf(record) === one);
  }
}
