import type { Call } from './call.js';

/** `entered`: the call has a slot, which it must leave. `full`: too many wait. `over`: the call ended before it had a slot. */
export type Entry = 'entered' | 'full' | 'over';

/** A call with less time than this, in ms, takes no slot: it could only begin. */
const SHORTEST = 5;

/** Limits concurrent calls, first come first served. A call that ends while it waits leaves the queue immediately. */
export class Semaphore {
  readonly #slots: number;
  readonly #longestQueue: number;
  #active = 0;
  /** Created at the first wait: most semaphores need none, and an empty set takes 200 bytes of each tenant. */
  #queue: Queue | undefined;

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
    if (this.#queue === undefined || !offerSlot(this.#queue)) {
      this.#active -= 1;
    }
  }
}

/** Waiting calls, each as a function that offers it a slot. The call then leaves the queue; `false` where it has too little time left. */
export type Queue = Set<() => boolean>;

/** Waits in the queue until a slot is offered, or until the call ends. */
export function queued(queue: Queue, call: Call): Promise<'entered' | 'over'> {
  return new Promise((resolve) => {
    const takesSlot = (): boolean => {
      queue.delete(takesSlot);
      // Where many calls began at once, their deadlines fire one after the other: the first that leaves its slot must not start the next.
      const hasTime = call.remaining() >= SHORTEST;
      resolve(hasTime ? 'entered' : 'over');
      return hasTime;
    };
    queue.add(takesSlot);
    call.whenOver(() => {
      queue.delete(takesSlot);
      resolve('over');
    });
  });
}

/** Offers a slot to the call that has waited longest, then to the next one. Returns whether one takes it. */
export function offerSlot(queue: Queue): boolean {
  for (const takesSlot of queue) {
    if (takesSlot()) {
      return true;
    }
  }
  return false;
}
