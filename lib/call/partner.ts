/** A request without a reply counts as late after this share of its time: a call takes a little of it until it sends. */
const LATE = 0.9;

/**
 * True where a partner that has been silent for so many ms is late.
 *
 * @param patience time that a request has, in ms
 */
export function isLate(silence: number, patience: number): boolean {
  return silence >= LATE * patience;
}

/**
 * What a call knows of its partner, the service or the provider, by its requests. The table has what each note makes of two facts:
 *
 * | note         | has failed | is excused: what failed, if anything, was not the partner |
 * | ------------ | ---------- | --------------------------------------------------------- |
 * | none yet     | no         | yes                                                       |
 * | `wasAsked`   | as before  | no                                                        |
 * | `answered`   | no         | as before                                                 |
 * | `failed`     | yes        | as before                                                 |
 * | `excused`    | as before  | yes, unless it has failed                                 |
 */
export class Partner {
  /** When the request under way was sent, by {@link Clock.now}. It stays where the end of the call ends the request. */
  #askedAt: number | undefined;
  #hasFailed = false;
  isExcused = true;

  /** @param now {@link Clock.now} */
  wasAsked(now: number): void {
    this.#askedAt = now;
    this.isExcused = false;
  }

  answered(): void {
    this.#askedAt = undefined;
    this.#hasFailed = false;
  }

  /** Its reply was a failure, none came in time, or we leave it alone after that. */
  failed(): void {
    this.#askedAt = undefined;
    this.#hasFailed = true;
  }

  /** The request failed in this process, on its machine or in code of the host, which says nothing of the partner. */
  excused(): void {
    this.#askedAt = undefined;
    this.isExcused = !this.#hasFailed;
  }

  /**
   * True where it failed, or {@link isLate} with the request under way.
   *
   * @param now {@link Clock.now}
   * @param patience time that a request has, in ms
   */
  hasFailedOrIsLate(now: number, patience: number): boolean {
    return this.#hasFailed || (this.#askedAt !== undefined && isLate(now - this.#askedAt, patience));
  }
}
