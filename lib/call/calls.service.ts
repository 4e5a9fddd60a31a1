import { Inject, Injectable } from '@nestjs/common';
import { Call } from './call.js';
import { Clock } from './clock.js';

/** Starts all calls. Closing ends each of them, whatever it waits for. */
@Injectable()
export class Calls {
  readonly #running = new Set<Call>();
  /** Every further call fails. */
  #isClosed = false;

  constructor(@Inject(Clock) private readonly clock: Clock) {}

  /** Starts a call of `ms` milliseconds, which also ends by `from`. The caller must `clear` it. */
  start(ms: number, from?: AbortSignal | Call): Call {
    const call = new Call(this.clock, ms, from, this.#forget);
    if (this.#isClosed) {
      call.close();
    } else if (!call.isOver) {
      this.#running.add(call);
    }
    return call;
  }

  /**
   * A call of several requests, which are calls of their own by `from`. Without a time limit, and not kept here: an iterator that nobody
   * reads to its end is collected.
   */
  open(signal: AbortSignal | undefined): Call {
    return new Call(this.clock, Infinity, signal);
  }

  /** Does `work` as a call of `ms` milliseconds, which also ends by `from`. */
  async within<T>(ms: number, work: (call: Call) => Promise<T>, from?: AbortSignal | Call): Promise<T> {
    const call = this.start(ms, from);
    try {
      return await work(call);
    } finally {
      call.clear();
    }
  }

  close(): void {
    this.#isClosed = true;
    for (const call of this.#running) {
      call.close();
    }
  }

  readonly #forget = (cleared: Call): void => void this.#running.delete(cleared);
}
