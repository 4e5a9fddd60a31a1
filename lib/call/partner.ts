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

/** What the partner of a call, the service or the provider, did with its requests since it answered one well. */
export class Partner {
  /** When it was asked first, by {@link Clock.now}; `undefined` where it has answered or failed since. */
  #silentSince: number | undefined;
  #hasFailed = false;
  /** True where nothing is known of it: no request was sent, or the last one failed in this process, its machine or code of the host. */
  isExcused = true;

  /** @param now {@link Clock.now} */
  wasAsked(now: number): void {
    this.#silentSince ??= now;
    this.isExcused = false;
  }

  answered(): void {
    this.#silentSince = undefined;
    this.#hasFailed = false;
  }

  /** The request failed here. */
  excused(): void {
    this.answered();
    this.isExcused = true;
  }

  /** Its reply was a failure, or we leave it alone after one. */
  failed(): void {
    this.#silentSince = undefined;
    this.#hasFailed = true;
  }

  /**
   * True where it failed, or {@link isLate}, over all attempts together.
   *
   * @param now {@link Clock.now}
   * @param patience time that a request has, in ms
   */
  hasFailed(now: number, patience: number): boolean {
    const isSilent = this.#silentSince !== undefined && isLate(now - this.#silentSince, patience);
    return this.#hasFailed || isSilent;
  }
}
