import type { Deadline } from '../time/deadline.js';
import type { RememberedRejection } from './remembered-rejection.js';
import { ReplacedToken } from './replaced-token.js';
import type { TimedToken } from './token-lifetime.js';
import type { TokenAnswer } from './token-records.js';

export class Renewal {
  /** The host invalidated the token meanwhile. What comes was requested before: it serves those who wait, and is not kept. */
  wasInvalidated = false;
  /** The new token, which may be one of another process. */
  readonly result: Promise<TimedToken>;

  /**
   * @param deadline of the renewal itself, independent of its callers
   * @param patience for other processes: half of that deadline, and half of the deadline of each caller
   */
  constructor(
    readonly replaced: ReplacedToken,
    readonly deadline: Deadline,
    readonly patience: Deadline,
    work: (renewal: Renewal) => Promise<TimedToken>,
  ) {
    this.result = work(this);
  }

  end(): void {
    this.deadline.clear();
    this.patience.clear();
  }
}

/**
 * State of one tenant's token. It belongs to the tenant's `stateKey`, which changes with token URL, client, scope and secret.
 * Tenants with equal credentials have separate tokens: forgetting or revoking one does not affect the other.
 */
export class HeldToken {
  renewal: Renewal | undefined = undefined;
  /** No early renewal before this time, because one failed. In ms of {@link Clock.now}. */
  pausedUntil = 0;
  #timed: TimedToken | undefined = undefined;
  #rejection: RememberedRejection | undefined = undefined;
  /** The token that was refused or invalidated, until there is a new one. */
  #bad: ReplacedToken | undefined = undefined;

  /** The token, unless it has expired at `now`. */
  goodAt(now: number): TimedToken | undefined {
    return this.#timed !== undefined && now < this.#timed.expiresAt ? this.#timed : undefined;
  }

  /** The rejection that is still remembered at `now`. */
  rejectionAt(now: number): RememberedRejection | undefined {
    return this.#rejection !== undefined && now < this.#rejection.until ? this.#rejection : undefined;
  }

  get replaced(): ReplacedToken {
    return this.#bad ?? new ReplacedToken('expiring', this.#timed?.accessToken);
  }

  keep(answer: TokenAnswer): void {
    if (answer.kind === 'rejected') {
      this.#rejection = answer.rejection;
      return;
    }
    this.#timed = answer.timed;
    this.#rejection = undefined;
    this.#bad = undefined;
  }

  /**
   * The host invalidated the token, and forgives a rejection. What a renewal under way brings was requested before. A token that
   * was refused again stays so: for an invalidated one, a token of another process would do.
   */
  invalidate(now: number): void {
    this.#rejection = undefined;
    if (this.renewal !== undefined) {
      this.renewal.wasInvalidated = true;
      this.renewal = undefined;
    }
    const { needsEndpoint, text } = this.replaced;
    if (!needsEndpoint) {
      this.#remove(new ReplacedToken('invalidated', text, now));
    }
  }

  /** The service refused this token in a request that was sent at `sentAt`. Without effect where it is not held any more. */
  removeRefused(text: string, sentAt: number, reason: 'refused' | 'refused-again'): void {
    const timed = this.#timed;
    if (timed?.accessToken !== text) {
      return;
    }
    // One that was about to end was probably refused for its age: any that was requested after it is good.
    const at = sentAt >= timed.endingAt ? timed.requestedAt : sentAt;
    this.#remove(new ReplacedToken(reason, text, at));
  }

  #remove(bad: ReplacedToken): void {
    this.#timed = undefined;
    this.#bad = bad;
  }
}
