/** The token bucket of the AWS SDKs: retries stop when most requests fail, long before a circuit opens. */
const FULL = 500;
const COST = { error: 5, timeout: 10 };
const GAIN_WITHOUT_RETRY = 1;

/** What a tenant may still spend on retries at one origin. */
export class RetryBudget {
  #left = FULL;

  /** True where nothing is spent. */
  get isFull(): boolean {
    return this.#left === FULL;
  }

  /** Takes the cost of one retry; false where it cannot be paid, and nothing is taken. */
  take(reason: keyof typeof COST): boolean {
    const cost = COST[reason];
    if (this.#left < cost) {
      return false;
    }
    this.#left -= cost;
    return true;
  }

  /** A request succeeded: what its last retry cost comes back, or a little where it needed none. */
  giveBack(reason: keyof typeof COST | undefined): void {
    this.#left = Math.min(FULL, this.#left + (reason === undefined ? GAIN_WITHOUT_RETRY : COST[reason]));
  }
}
