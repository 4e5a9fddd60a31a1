import type { Clock } from '../../time/clock.js';
import { Deadline } from '../../time/deadline.js';
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
  readonly #answer: Promise<FoundLookup>;
  readonly #deadline: Deadline;
  #callers = 0;
  #isDone = false;

  constructor(
    readonly name: LookupName,
    clock: Clock,
    ms: number,
    work: (deadline: Deadline, lookup: RunningLookup) => Promise<FoundLookup>,
  ) {
    this.#deadline = new Deadline(clock, ms);
    this.#answer = work(this.#deadline, this).finally(() => {
      this.#isDone = true;
      this.#deadline.clear();
    });
    // Callers wait on promises of their own. Without callers, a rejection here would be unhandled.
    this.#answer.catch(() => {});
  }

  /** True once the last caller has left or the time is up: no further caller can join. */
  get isOver(): boolean {
    return this.#deadline.isOver;
  }

  /** Waits for the answer within the deadline of the caller. */
  async join(deadline: Deadline): Promise<FoundLookup> {
    this.#callers += 1;
    this.#deadline.extend(deadline.remaining());
    try {
      return await deadline.race(this.#answer, this.#deadline);
    } finally {
      this.#callers -= 1;
      if (this.#callers === 0 && !this.#isDone) {
        this.#deadline.abort();
      }
    }
  }
}
