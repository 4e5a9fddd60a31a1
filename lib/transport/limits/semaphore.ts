import type { Deadline } from '../../time/deadline.js';

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
  /** Created at the first wait: most semaphores need none, and an empty set takes 200 bytes of each tenant. */
  #waiting: Set<() => void> | undefined;

  get isIdle(): boolean {
    return this.#active === 0;
  }

  async enter({ slots, waiting }: SemaphoreLimits, deadline: Deadline): Promise<Entry> {
    if (this.#active < slots) {
      this.#active += 1;
      return 'entered';
    }
    if (deadline.isOver) {
      return 'over';
    }
    return (this.#waiting?.size ?? 0) < waiting ? this.#wait(deadline) : 'full';
  }

  /** Returns a slot, which goes to the call that has waited longest. */
  leave({ slots }: SemaphoreLimits): void {
    this.#active -= 1;
    for (const start of this.#waiting ?? []) {
      if (this.#active >= slots) {
        return;
      }
      this.#active += 1;
      start();
    }
  }

  #wait(deadline: Deadline): Promise<Entry> {
    const queue = (this.#waiting ??= new Set());
    return new Promise((resolve) => {
      const start = (): void => {
        queue.delete(start);
        forget();
        resolve('entered');
      };
      const forget = deadline.onOver(() => {
        queue.delete(start);
        resolve('over');
      });
      queue.add(start);
    });
  }
}
