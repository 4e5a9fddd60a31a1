import type { Deadline } from '../../time/deadline.js';

/** For each request that may be under way, so many may wait: a burst is served, a flood is not kept in memory. */
const WAITING_PER_SLOT = 16;

/** So many requests begin in one turn of the event loop: the default window of a stream begins at once. */
const BEGUN_PER_TURN = 4;

/**
 * Where more wait, only so many. A tenant whose token was late has a hundred callers waiting for it; begun at once, with
 * a connection each, they hold up the replies of every other tenant.
 */
const BEGUN_PER_TURN_OF_A_BURST = 2;

/**
 * Bounds the requests under way of one tenant at one origin, first come first served. A caller that leaves gives up
 * its place at once and one that was given a slot has it: cockatiel's bulkhead keeps the former and may lose the latter.
 */
export class Bulkhead {
  #active = 0;
  #begunThisTurn = 0;
  #mostThisTurn = BEGUN_PER_TURN;
  #waiting: (() => void)[] = [];

  /** Takes a slot if one is free and nobody waits for it. */
  tryEnter(slots: number): boolean {
    if (this.#waiting.length > 0 || !this.#mayBegin(slots)) {
      return false;
    }
    this.#begin(slots);
    return true;
  }

  /** True where nobody may even wait. */
  isFull(slots: number): boolean {
    return this.#active + this.#waiting.length >= slots * (1 + WAITING_PER_SLOT);
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

  /** Gives the slot back, to the one who waits longest. */
  leave(slots: number): void {
    this.#active--;
    this.#letIn(slots);
  }

  #mayBegin(slots: number): boolean {
    return this.#active < slots && this.#begunThisTurn < this.#mostThisTurn;
  }

  #begin(slots: number): void {
    this.#active++;
    this.#begunThisTurn++;
    if (this.#begunThisTurn === 1) {
      setImmediate(() => this.#turn(slots));
    }
  }

  #turn(slots: number): void {
    this.#begunThisTurn = 0;
    this.#mostThisTurn = this.#waiting.length > 0 ? BEGUN_PER_TURN_OF_A_BURST : BEGUN_PER_TURN;
    this.#letIn(slots);
  }

  #letIn(slots: number): void {
    while (this.#mayBegin(slots)) {
      const next = this.#waiting.shift();
      if (next === undefined) {
        return;
      }
      this.#begin(slots);
      next();
    }
  }
}
