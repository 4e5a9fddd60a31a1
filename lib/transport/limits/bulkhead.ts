import type { Deadline } from '../../time/deadline.js';

/** Waiting requests per slot. A burst is served; a flood is refused instead of kept in memory. */
const WAITING_PER_SLOT = 16;

/** Requests that are added per turn of the event loop. The default window of a stream starts at once. */
const ADDED_PER_TURN = 4;

/**
 * Requests that are added per turn while more are waiting. After a late token, a hundred requests of a tenant may be waiting;
 * started all at once, with a connection each, they would delay the replies of every other tenant.
 */
const ADDED_PER_TURN_OF_A_BURST = 2;

/** Limits the concurrent requests of one tenant at one origin, first come first served. */
export class Bulkhead {
  #active = 0;
  /** Requests started minus those answered: one that follows another on its connection adds none. */
  #addedThisTurn = 0;
  #limitThisTurn = ADDED_PER_TURN;
  #isTurnOver = true;
  #waiting: (() => void)[] = [];

  /** Takes a slot if one is free and no request is waiting. */
  tryEnter(slots: number): boolean {
    if (this.#waiting.length > 0 || !this.#mayStart(slots)) {
      return false;
    }
    this.#start(slots);
    return true;
  }

  /** True where the queue is full. */
  isFull(slots: number): boolean {
    return this.#active + this.#waiting.length >= slots * (1 + WAITING_PER_SLOT);
  }

  /** Waits for a slot. Answers false where the call was over first; it leaves the queue immediately. */
  wait(deadline: Deadline): Promise<boolean> {
    if (deadline.isOver) {
      return Promise.resolve(false);
    }
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

  /** Returns a slot, which goes to the request that has waited longest. */
  leave(slots: number): void {
    this.#active--;
    this.#startWaiting(slots);
  }

  /** Returns the slot of a request that was answered: the next one follows at once, on the same connection. */
  handOver(slots: number): void {
    this.#addedThisTurn--;
    this.#awaitTurn(slots);
    this.leave(slots);
  }

  #mayStart(slots: number): boolean {
    return this.#active < slots && this.#addedThisTurn < this.#limitThisTurn;
  }

  #start(slots: number): void {
    this.#active++;
    this.#addedThisTurn++;
    this.#awaitTurn(slots);
  }

  #awaitTurn(slots: number): void {
    if (this.#isTurnOver) {
      this.#isTurnOver = false;
      setImmediate(() => this.#nextTurn(slots));
    }
  }

  #nextTurn(slots: number): void {
    this.#isTurnOver = true;
    this.#addedThisTurn = 0;
    this.#limitThisTurn = this.#waiting.length > 0 ? ADDED_PER_TURN_OF_A_BURST : ADDED_PER_TURN;
    this.#startWaiting(slots);
  }

  #startWaiting(slots: number): void {
    while (this.#mayStart(slots)) {
      const next = this.#waiting.shift();
      if (next === undefined) {
        return;
      }
      this.#start(slots);
      next();
    }
  }
}
