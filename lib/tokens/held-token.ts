import type { Deadline } from '../time/deadline.js';
import type { RememberedRejection } from './remembered-rejection.js';
import type { ReplacedToken } from './replaced-token.js';
import type { TimedToken } from './token-lifetime.js';

/** How long a token that expired still names the lease for the next one, in ms: longer than a lease lives. */
const NAMES_LEASE = 4_000;

/** A renewal that is under way. */
export class Renewal {
  /** The host invalidated the token meanwhile. What comes was requested before: it serves those who wait, and is not kept. */
  wasInvalidated = false;
  /** The new token, which may be one of another process. */
  readonly result: Promise<TimedToken>;

  /**
   * @param deadline of the renewal itself, independent of its callers
   * @param patience for other processes: half of that deadline, and half of the deadline of each caller
   * @param outcome `forced`: the token was refused or invalidated
   */
  constructor(
    readonly deadline: Deadline,
    readonly patience: Deadline,
    readonly outcome: 'fetched' | 'forced',
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
  timed: TimedToken | undefined = undefined;
  renewal: Renewal | undefined = undefined;
  rejection: RememberedRejection | undefined = undefined;
  /** No early renewal before this time, because one failed. In ms of {@link Clock.now}. */
  pausedUntil = 0;
  /** The token that was refused or invalidated, until there is a new one. */
  #bad: ReplacedToken | undefined = undefined;

  /** The next token replaces one that was refused or invalidated. */
  get isForced(): boolean {
    return this.#bad !== undefined;
  }

  /** The token, unless it has expired at `now`. */
  goodAt(now: number): TimedToken | undefined {
    return this.timed !== undefined && now < this.timed.expiresAt ? this.timed : undefined;
  }

  /** Stores a new token. */
  keep(timed: TimedToken): void {
    this.timed = timed;
    this.rejection = undefined;
    this.#bad = undefined;
  }

  /** The host invalidated the token, and forgives a rejection. What a renewal under way brings was requested before. */
  invalidate(now: number): void {
    this.rejection = undefined;
    if (this.renewal !== undefined) {
      this.renewal.wasInvalidated = true;
      this.renewal = undefined;
    }
    // Then this process asks the token endpoint anyway.
    if (this.#bad?.kind !== 'refused-again') {
      const text = this.timed?.accessToken ?? this.#bad?.text;
      this.#remove({ kind: 'invalidated', text, at: now });
    }
  }

  /** The service refused this token in a request that was sent at `sentAt`. Without effect where it is not held any more. */
  removeRefused(text: string, sentAt: number, kind: 'refused' | 'refused-again'): void {
    const { timed } = this;
    if (timed?.accessToken !== text) {
      return;
    }
    // One that was about to end was probably refused for its age: any that was requested after it is good.
    const at = sentAt >= timed.endingAt ? timed.requestedAt : sentAt;
    this.#remove({ kind, text, at });
  }

  /** What the next token replaces. */
  replaced(now: number): ReplacedToken {
    if (this.#bad !== undefined) {
      return this.#bad;
    }
    // Idle processes hold different tokens that expired long ago. Their next token replaces none of them.
    const { timed } = this;
    const isRecent = timed !== undefined && now < timed.expiresAt + NAMES_LEASE;
    return { kind: 'expiring', text: isRecent ? timed.accessToken : undefined };
  }

  #remove(bad: ReplacedToken): void {
    this.timed = undefined;
    this.#bad = bad;
  }
}
