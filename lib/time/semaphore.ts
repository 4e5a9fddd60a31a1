import type { Deadline } from './deadline.js';

/** `entered`: the call has a slot, which it must leave. `full`: too many wait. `over`: the call ended before it had a slot. */
export type Entry = 'entered' | 'full' | 'over';

/** How many calls may run at once, and how many more may wait. */
export interface SemaphoreLimits {
  slots: number;
  waiting: number;
}

/** Limits concurrent calls, first come first served. A call that ends while it waits leaves the queue immediately. */
export class Semaphore {
  #active = 0;
  readonly #waiting = new Set<() => void>();

  /** True where no call has a slot. */
  get isIdle(): boolean {
    return this.#active === 0;
  }

  /** Takes a slot, or waits for one. */
  async enter({ slots, waiting }: SemaphoreLimits, deadline: Deadline): Promise<Entry> {
    if (this.#active < slots) {
      this.#active += 1;
      return 'entered';
    }
    if (deadline.isOver) {
      return 'over';
    }
    return this.#waiting.size < waiting ? this.#wait(deadline) : 'full';
  }

  /** Returns a slot, which goes to the call that has waited longest. */
  leave({ slots }: SemaphoreLimits): void {
    this.#active -= 1;
    for (const start of this.#waiting) {
      if (this.#active >= slots) {
        return;
      }
      this.#active += 1;
      start();
    }
  }

  #wait(deadline: Deadline): Promise<Entry> {
    return new Promise((resolve) => {
      const start = (): void => {
        this.#waiting.delete(start);
        forget();
        resolve('entered');
      };
      const forget = deadline.onOver(() => {
        this.#waiting.delete(start);
        resolve('over');
      });
      this.#waiting.add(start);
    });
  }
}
