import type { Call } from './call.js';

/** `entered`: the call has a slot, which it must leave. `full`: too many wait. `over`: the call ended before it had a slot. */
export type Entry = 'entered' | 'full' | 'over';

/** Limits concurrent calls, first come first served. A call that ends while it waits leaves the queue immediately. */
export class Semaphore {
  readonly #slots: number;
  readonly #longestQueue: number;
  #active = 0;
  /** Created at the first wait: most semaphores need none, and an empty set takes 200 bytes of each tenant. */
  #queue: Set<() => void> | undefined;

  /**
   * @param slots calls that run at once
   * @param waiting further calls that may wait
   */
  constructor({ slots, waiting }: { slots: number; waiting: number }) {
    this.#slots = slots;
    this.#longestQueue = waiting;
  }

  get isIdle(): boolean {
    return this.#active === 0;
  }

  get isFull(): boolean {
    return this.#active === this.#slots;
  }

  /** No promise where the call need not wait. */
  enter(call: Call): Entry | Promise<Entry> {
    if (call.isOver) {
      return 'over';
    }
    if (this.#active < this.#slots) {
      this.#active += 1;
      return 'entered';
    }
    const queue = (this.#queue ??= new Set());
    return queue.size < this.#longestQueue ? queued(queue, call) : 'full';
  }

  /** Returns a slot, which goes to the call that has waited longest. */
  leave(): void {
    const [start] = this.#queue ?? [];
    if (start === undefined) {
      this.#active -= 1;
    } else {
      start();
    }
  }
}

/** Waits in the queue until the function that it adds there is called, or until the call ends. */
export function queued(queue: Set<() => void>, call: Call): Promise<'entered' | 'over'> {
  return new Promise((resolve) => {
    const start = (): void => {
      queue.delete(start);
      resolve('entered');
    };
    queue.add(start);
    call.whenOver(() => {
      queue.delete(start);
      resolve('over');
    });
  });
}
