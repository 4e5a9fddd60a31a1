import { Inject, Injectable } from '@nestjs/common';
import { Call, type CallKeeper } from './call.js';
import { Clock } from './clock.js';

/** Starts all calls. Closing ends each of them, with its parts, whatever it waits for. */
@Injectable()
export class Calls implements CallKeeper {
  readonly #running = new Set<Call>();
  #isClosed = false;

  constructor(@Inject(Clock) private readonly clock: Clock) {}

  /**
   * Starts a call, which also ends by the signal.
   *
   * @param ms its time, in milliseconds. `Infinity` for a call of several requests, whose parts have a time
   */
  start(ms: number, signal?: AbortSignal): Call {
    return new Call(this.clock, ms, signal, this);
  }

  /** Every further call fails. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  add(call: Call): void {
    if (this.#isClosed) {
      call.close();
    } else {
      this.#running.add(call);
    }
  }

  delete(call: Call): void {
    this.#running.delete(call);
  }

  close(): void {
    this.#isClosed = true;
    for (const call of this.#running) {
      call.close();
    }
  }
}
