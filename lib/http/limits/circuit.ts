import type { Rests, Subject } from '../../call/rests.js';

/** Requests in a row without any reply that open the circuit. */
const WITHOUT_REPLY = 40;

/** Tells circuits apart. */
let lastId = 0;

/**
 * Whether a partner can be reached: the circuit breaker of one tenant, origin and group of operations. A 5xx is a reply. While
 * partners answer 5xx or late to one kind of request, the requests of others pass.
 */
export class Circuit {
  #inARow = 0;
  /** An operator was told that it opened, and not yet that it closed. */
  isTold = false;
  /** Only requests that were sent since count: since the last reply, or the end of the last pause. */
  #countsFrom = 0;
  readonly #subject: Subject = ['circuit', (lastId += 1)];

  constructor(private readonly rests: Rests) {}

  /** Milliseconds until requests may be sent again; 0 where they may. */
  get openFor(): number {
    return this.rests.left(this.#subject);
  }

  /** A reply came, to whatever request. Closes the circuit. */
  replied(now: number): void {
    this.#inARow = 0;
    this.#countsFrom = now;
    this.rests.end(this.#subject);
  }

  /** A request ended without a reply. Returns whether that opened the circuit. */
  unanswered(sentAt: number, now: number): boolean {
    if (sentAt < this.#countsFrom) {
      return false;
    }
    this.#inARow += 1;
    if (this.#inARow < WITHOUT_REPLY) {
      return false;
    }
    this.#inARow = 0;
    this.rests.begin(this.#subject);
    this.#countsFrom = now + this.openFor;
    return true;
  }
}
