import type { Deadline } from './deadline.js';

/** For each request that may be under way, so many may wait: a burst is served, a flood is not kept in memory. */
const WAITING_PER_SLOT = 16;

/**
 * Bounds the requests under way of one tenant at one origin, first come first served. A caller that leaves gives up
 * its place at once and one that was given a slot has it: cockatiel's bulkhead keeps the former and may lose the latter.
 */
export class Bulkhead {
  #active = 0;
  #waiting: (() => void)[] = [];

  /** Takes a slot if one is free. */
  tryEnter(slots: number): boolean {
    if (this.#active >= slots) return false;
    this.#active++;
    return true;
  }

  /** True where nobody may even wait. */
  isFull(slots: number): boolean {
    return this.#waiting.length >= slots * WAITING_PER_SLOT;
  }

  /** Waits for a slot; false where the call was over before there was one. */
  wait(deadline: Deadline): Promise<boolean> {
    return new Promise((resolve) => {
      const enter = (): void => {
        forget();
        resolve(true);
      };
      const forget = deadline.onOver(() => {
        this.#waiting.splice(this.#waiting.indexOf(enter), 1);
        resolve(false);
      });
      this.#waiting.push(enter);
    });
  }

  /** Gives the slot to the one who waits longest, or back. */
  leave(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#active--;
    else next();
  }
}
