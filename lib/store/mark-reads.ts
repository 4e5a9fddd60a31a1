import { setImmediate as endOfTurn } from 'node:timers/promises';
import type { SharedValues, StoredValue, ValueName } from './shared-values.service.js';

/** Reads that are sent together. */
interface Turn {
  readonly names: ValueName[];
  /** By kind and name, the index of an answer. */
  readonly places: Map<string, number>;
  readonly answers: Promise<readonly (StoredValue | undefined)[]>;
}

/**
 * Reads from the shared store. Those of one turn of the event loop are sent together at its end, equal ones once: many requests
 * of a user ask once. A read that was sent in an earlier turn is not shared, since a logout may have followed it.
 */
export class MarkReads {
  readonly #shared: SharedValues;
  #turn: Turn | undefined;

  constructor(shared: SharedValues) {
    this.#shared = shared;
  }

  /** The value, `undefined` where there is none; no answer where the store is down. */
  async read({ kind, name }: ValueName): Promise<StoredValue | undefined> {
    const { names, places, answers } = (this.#turn ??= this.#startTurn());
    const key = `${kind} ${name}`;
    const place = places.get(key) ?? names.push({ kind, name }) - 1;
    places.set(key, place);
    return (await answers)[place];
  }

  #startTurn(): Turn {
    const names: ValueName[] = [];
    const answers = endOfTurn().then(() => {
      this.#turn = undefined;
      return this.#shared.findMany(names);
    });
    return { names, places: new Map(), answers };
  }
}
