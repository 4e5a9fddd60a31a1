import type { Clock } from '../../time/clock.js';
import { Deadline } from '../../time/deadline.js';
import type { LookupName } from './lookup-cache.js';

/**
 * One request that many callers wait for. It lasts as long as the last of them: a caller who leaves, or whose time is up,
 * takes nothing from the others; when nobody waits any more it is aborted on the wire.
 */
export class LookupFlight {
  readonly name: LookupName;
  readonly #answer: Promise<readonly unknown[]>;
  readonly #deadline: Deadline;
  readonly #abandon = new AbortController();
  #callers = 0;
  #isDone = false;

  constructor(
    name: LookupName,
    clock: Clock,
    ms: number,
    work: (deadline: Deadline) => Promise<readonly unknown[]>,
  ) {
    this.name = name;
    this.#deadline = Deadline.start(clock, ms, this.#abandon.signal);
    this.#answer = work(this.#deadline).finally(() => {
      this.#isDone = true;
      this.#deadline.end();
    });
    // Everyone who waits has a promise of their own; nobody may be waiting when this one fails.
    this.#answer.catch(() => {});
  }

  /** True once nobody waits for it any more. */
  get isAbandoned(): boolean {
    return this.#abandon.signal.aborted;
  }

  /** Waits for the answer within the caller's own deadline. */
  async join(deadline: Deadline): Promise<readonly unknown[]> {
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
