import { Inject, Injectable } from '@nestjs/common';
import { Clock } from './clock.js';
import { Deadline } from './deadline.js';

/** Starts the deadlines of all calls. Closing ends every call, whatever it waits for. */
@Injectable()
export class Deadlines {
  readonly #running = new Set<Deadline>();
  #isClosed = false;

  constructor(@Inject(Clock) private readonly clock: Clock) {}

  /** True once the module was closed: every further call fails. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Starts a deadline `ms` milliseconds from now, which also ends when `signal` aborts. The caller must `clear` it. */
  start(ms: number, signal?: AbortSignal): Deadline {
    const deadline = new Deadline(this.clock, ms, signal, this.#forget);
    if (this.#isClosed) {
      deadline.close();
    } else if (!deadline.isOver) {
      this.#running.add(deadline);
    }
    return deadline;
  }

  /** Does `work` under a deadline `ms` milliseconds from now, which also ends when `signal` aborts. */
  async within<T>(ms: number, work: (deadline: Deadline) => Promise<T>, signal?: AbortSignal): Promise<T> {
    const deadline = this.start(ms, signal);
    try {
      return await work(deadline);
    } finally {
      deadline.clear();
    }
  }

  close(): void {
    this.#isClosed = true;
    for (const deadline of this.#running) {
      deadline.close();
    }
  }

  readonly #forget = (cleared: Deadline): void => void this.#running.delete(cleared);
}
