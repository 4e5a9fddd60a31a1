/** A request without a reply counts as late after this share of its time: a call takes a little of it until it sends. */
const LATE = 0.9;

/** True where a request that has waited so many ms for a reply has had its time, in ms. */
export function hadItsTime(waited: number, time: number): boolean {
  return waited >= LATE * time;
}

/** What the partner of a call, the service or the provider, did with its last request. */
export class Partner {
  #state: 'asked' | 'answered' | 'failed' = 'answered';
  #askedAt = 0;

  /** @param now {@link Clock.now} */
  wasAsked(now: number): void {
    this.#state = 'asked';
    this.#askedAt = now;
  }

  answered(): void {
    this.#state = 'answered';
  }

  /** Its reply was a failure, or we leave it alone after one. */
  failed(): void {
    this.#state = 'failed';
  }

  /**
   * @param now {@link Clock.now}
   * @param time that a request has, in ms: one without a reply that {@link hadItsTime} is a failure, too
   */
  hasFailed(now: number, time: number): boolean {
    return this.#state === 'asked' ? hadItsTime(now - this.#askedAt, time) : this.#state === 'failed';
  }
}
