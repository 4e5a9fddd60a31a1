import type { Deadline } from '../../time/deadline.js';
import type { LookupName } from './lookup-cache.js';

/** The result of a lookup. */
export interface FoundLookup {
  /** Frozen. */
  readonly records: readonly unknown[];
  /** True where the answer was in memory or in the store, so that the service was not asked. */
  readonly isCached: boolean;
}

/**
 * A lookup under way, for which all callers of equal lookups wait (single flight). It lasts as long as the last of them waits:
 * a caller that aborts or times out does not affect the others. When no caller is left, the request is aborted.
 */
export class RunningLookup {
  #callers = 0;

  /**
   * @param deadline of the lookup itself
   * @param answer what it will find within that deadline
   */
  constructor(
    readonly name: LookupName,
    readonly deadline: Deadline,
    private readonly answer: Promise<FoundLookup>,
  ) {
    // Callers wait on promises of their own. Without callers, a rejection here would be unhandled.
    answer.catch(() => {});
  }

  /** True once the last caller has left or the time is up: no further caller can join. */
  get isOver(): boolean {
    return this.deadline.isOver;
  }

  /** Waits for the answer within the deadline of a caller. */
  async join(caller: Deadline): Promise<FoundLookup> {
    this.#callers += 1;
    this.deadline.extend(caller.remaining());
    try {
      return await caller.race(this.answer, this.deadline);
    } finally {
      this.#callers -= 1;
      if (this.#callers === 0) {
        this.deadline.abort();
      }
    }
  }
}
