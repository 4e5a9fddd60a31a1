import type { ExhibitorTestingWorld } from './testing-world.interface.js';

/** The exhibitors of a test, by event and by contact. */
export class TestingRecords<T> {
  readonly #events: Map<string, readonly T[]>;
  readonly #contacts = new Map<string, readonly (string | T)[]>();
  readonly #idOf: (exhibitor: T) => string | undefined;
  /** Ids that an event has or had: a contact may name an exhibitor that was removed, but none that never was there. */
  readonly #knownIds = new Map<string, Set<string>>();
  /** The records as they are sent: by number, so that no field (a `Date`, an instance of a class) is lost on the way. */
  readonly #numbers = new Map<T, number>();
  readonly #sent: T[] = [];

  constructor({ events = {}, contacts = {}, exhibitorId }: ExhibitorTestingWorld<T>) {
    this.#idOf = exhibitorId ?? defaultId;
    this.#events = new Map();
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
      known.add(this.#idOf(record) ?? '');
    }
    this.#knownIds.set(eventId, known);
  }

  setContact(eventId: string, email: string, exhibitors: readonly (string | T)[]): void {
    this.#contacts.set(JSON.stringify([eventId, email]), [...exhibitors]);
  }

  /** Numbers of the exhibitors of an event; `undefined` where there is no such event. */
  ofEvent(eventId: string): readonly number[] | undefined {
    return this.#events.get(eventId)?.map((record) => this.#numberOf(record));
  }

  /**
   * Numbers of the exhibitors of a contact.
   *
   * @throws Error where the contact has an id that the event never had: a mistake in the test
   */
  ofContact(eventId: string, email: string): readonly number[] {
    const named = this.#contacts.get(JSON.stringify([eventId, email])) ?? [];
    return named.flatMap((one) => this.#find(eventId, one)).map((record) => this.#numberOf(record));
  }

  idOf(exhibitor: T): string | undefined {
    return this.#idOf(exhibitor);
  }

  /** The record of a number. */
  at(number: number): T | undefined {
    return this.#sent[number];
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
    return (this.#events.get(eventId) ?? []).filter((record) => this.#idOf(record) === one);
  }

  #numberOf(record: T): number {
    const number = this.#numbers.get(record) ?? this.#sent.push(record) - 1;
    this.#numbers.set(record, number);
    return number;
  }
}

function defaultId(record: unknown): string | undefined {
  if (typeof record !== 'object' || record === null) {
    return undefined;
  }
  const id =
    ('id' in record ? record.id : undefined) ?? ('exhibitorId' in record ? record.exhibitorId : undefined);
  return typeof id === 'string' || typeof id === 'number' ? String(id) : undefined;
}
