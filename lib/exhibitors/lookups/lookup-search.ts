import type { Clock } from '../../time/clock.js';
import type { LookupAnswer } from './lookup-cache.js';
import { rowsOf, type StoredLookup } from './stored-lookup.js';

/** Rows as the service sent them, and the records that this process made of them. */
export interface AskedLookup {
  rows: readonly unknown[];
  answer: LookupAnswer;
}

/** How to get the answer to a lookup. */
export interface LookupSteps {
  /** Checks rows with the schema of this process. */
  prepare(rows: readonly unknown[]): Promise<LookupAnswer>;
  /** Asks the service. */
  ask(): Promise<AskedLookup>;
  /** Called with an answer of the store that is not fresh, for the case that the service fails. */
  keepStale(found: FoundLookup): void;
}

/** An answer, fresh for `freshFor` ms. */
export interface FoundLookup {
  answer: LookupAnswer;
  freshFor: number;
  /** True where this process did not ask the service. */
  isShared: boolean;
}

/** The options that decide about an answer of the store. */
export interface SharingLimits {
  ttl: number;
  staleIfError: number;
  maxRecords: number;
}

/** One search of the store, which may look several times. */
export class LookupSearch {
  readonly #clock: Clock;
  readonly #limits: SharingLimits;
  readonly #steps: LookupSteps;
  /** Ids of answers that are of no use, or that were kept already. */
  readonly #done = new Set<string>();

  constructor(clock: Clock, limits: SharingLimits, steps: LookupSteps) {
    this.#clock = clock;
    this.#limits = limits;
    this.#steps = steps;
  }

  /** The answer, where it is fresh and fits the options of this process. */
  async examine(stored: StoredLookup | undefined): Promise<FoundLookup | 'too-large' | undefined> {
    if (stored === undefined || this.#done.has(stored.id)) {
      return undefined;
    }
    const left = stored.freshUntil - this.#clock.epochMs();
    const freshFor = Math.min(this.#limits.ttl, left);
    if (stored.rows === undefined) {
      return freshFor > 0 ? 'too-large' : undefined;
    }
    if (freshFor <= -this.#limits.staleIfError) {
      return undefined;
    }
    this.#done.add(stored.id);
    const answer = await this.#prepare(stored.rows);
    if (answer === undefined) {
      return undefined;
    }
    const found = { answer, freshFor, isShared: true };
    if (freshFor > 0) {
      return found;
    }
    this.#steps.keepStale(found);
    return undefined;
  }

  /** Another version of the host may have stored rows that do not fit this one. The service is asked then. */
  async #prepare(json: string): Promise<LookupAnswer | undefined> {
    const rows = rowsOf(json);
    if (rows === undefined || rows.length > this.#limits.maxRecords) {
      return undefined;
    }
    return this.#steps.prepare(rows).catch(() => undefined);
  }
}
