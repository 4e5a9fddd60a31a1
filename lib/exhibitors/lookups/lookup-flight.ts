import { Cancellation } from '../../time/cancellation.js';
import type { Clock } from '../../time/clock.js';
import { Deadline } from '../../time/deadline.js';
import type { LookupName } from './lookup-cache.js';

/** Frozen records, and whether the service was not asked for them. */
export interface FlownLookup {
  records: readonly unknown[];
  isShared: boolean;
}

/**
 * One request that several callers share. It lasts as long as the last of them waits: a caller that aborts or times out does
 * not affect the others. When no caller is left, the request is aborted.
 */
export class LookupFlight {
  readonly name: LookupName;
  readonly #answer: Promise<FlownLookup>;
  readonly #deadline: Deadline;
  readonly #abandon = new Cancellation();
  #callers = 0;
  #isDone = false;

  constructor(
    name: LookupName,
    clock: Clock,
    ms: number,
    work: (deadline: Deadline) => Promise<FlownLookup>,
  ) {
    this.name = name;
    this.#deadline = Deadline.start(clock, ms, this.#abandon);
    this.#answer = work(this.#deadline).finally(() => {
      this.#isDone = true;
      this.#deadline.end();
    });
    // Callers wait on promises of their own. Without callers, a rejection here would be unhandled.
    this.#answer.catch(() => {});
  }

  /** True once the last caller has left or the time is up: no further caller can join. */
  get isOver(): boolean {
    return this.#deadline.isOver;
  }

  /** Waits for the answer within the deadline of the caller. */
  async join(deadline: Deadline): Promise<FlownLookup> {
    this.#callers += 1;
    this.#deadline.extend(deadline.remaining());
    try {
      return await deadline.race(this.#answer, this.#deadline);
    } finally {
      this.#callers -= 1;
      if (this.#callers === 0 && !this.#isDone) {
        this.#abandon.abort();
      }
    }
  }
}
