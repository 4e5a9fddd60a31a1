/** Requests in a row without any reply that open the circuit. */
const WITHOUT_REPLY = 40;
/** Time in ms for which it is open. */
const PAUSE = 5_000;

/**
 * Whether a partner can be reached: the circuit breaker of one tenant, origin and group of operations. A 5xx is a reply. While
 * partners answer 5xx or late to one kind of request, the requests of others pass.
 */
export class Circuit {
  #inARow = 0;
  #openUntil = 0;
  /** An operator was told that it opened, and not yet that it closed. */
  isTold = false;
  /** Only requests that were sent since count: since the last reply, or the end of the last pause. */
  #countsFrom = 0;

  /** Milliseconds until requests may be sent again; 0 where they may. */
  openFor(now: number): number {
    return Math.max(0, this.#openUntil - now);
  }

  /** A reply came, to whatever request. Closes the circuit. */
  replied(now: number): void {
    this.#inARow = 0;
    this.#openUntil = 0;
    this.#countsFrom = now;
  }

  /** A request ended without a reply. Answers whether that opened the circuit. */
  unanswered(sentAt: number, now: number): boolean {
    if (sentAt < this.#countsFrom) {
      return false;
    }
    this.#inARow += 1;
    if (this.#inARow < WITHOUT_REPLY) {
      return false;
    }
    this.#inARow = 0;
    this.#openUntil = now + PAUSE;
    this.#countsFrom = this.#openUntil;
    return true;
  }
}
