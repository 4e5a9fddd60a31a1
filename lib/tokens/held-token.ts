import type { Deadline } from '../time/deadline.js';
import type { RememberedRejection } from './remembered-rejection.js';
import type { TimedToken } from './token-lifetime.js';

/** How long a token that expired still names the lease for the next one, in ms: longer than a lease lives. */
const NAMES_LEASE = 4_000;

/** How long a renewal may take. */
export interface RenewalLimits {
  /** Of the renewal itself, independent of its callers. */
  readonly deadline: Deadline;
  /** Of its wait for another process: half of its own deadline, and of that of each caller. */
  readonly patience: Deadline;
}

/** A token request that is under way. */
export interface Renewal extends RenewalLimits {
  readonly result: Promise<RenewedToken>;
}

/** A new token, and how it was got. `shared`: it came from another process. */
export interface RenewedToken {
  readonly timed: TimedToken;
  readonly outcome: 'fetched' | 'forced' | 'shared';
}

/** The token that the next one replaces. It decides what this process takes from the store. Times of {@link Clock.now}. */
export interface Replaced {
  /** Its text; none where there was no token. */
  readonly text?: string;
  /** When it was sent in a request that the service refused: only a token that was requested later is taken. */
  readonly refusedAt?: number;
  /** It came in place of a refused token, and was refused as well: none is taken. */
  readonly isAlone?: boolean;
  /** When the host invalidated it: no earlier rejection is taken. */
  readonly forgivenAt?: number;
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
  /** What was refused or invalidated, until there is a new token. */
  #dropped: Replaced | undefined = undefined;

  /** The next token replaces one that was refused or invalidated. */
  get isForced(): boolean {
    return this.#dropped !== undefined;
  }

  /** Stores a new token. */
  keep(timed: TimedToken): void {
    this.timed = timed;
    this.rejection = undefined;
    this.#dropped = undefined;
  }

  /** The host invalidated the token, and forgives a rejection. What a renewal under way brings was requested before. */
  invalidate(now: number): void {
    this.rejection = undefined;
    this.renewal = undefined;
    this.#drop({ refusedAt: now, forgivenAt: now });
  }

  /**
   * The service refused the token in a request that was sent at `sentAt`. A token that was about to end was probably refused for
   * its age: any one that was requested after it is good.
   *
   * @param isAlone this process asks the token endpoint itself
   */
  refuse(sentAt: number, isAlone: boolean): void {
    const { timed } = this;
    const refusedAt = timed !== undefined && sentAt >= timed.endingAt ? timed.requestedAt : sentAt;
    this.#drop(isAlone ? { refusedAt, isAlone } : { refusedAt });
  }

  #drop(why: Omit<Replaced, 'text'>): void {
    const text = this.timed?.accessToken ?? this.#dropped?.text;
    this.timed = undefined;
    this.#dropped = { ...this.#dropped, ...why, text };
  }

  /** What the next token replaces. */
  replaced(now: number): Replaced {
    if (this.#dropped !== undefined) {
      return this.#dropped;
    }
    // Idle processes hold different tokens that expired long ago. Their next token replaces none of them.
    const isRecent = this.timed !== undefined && now < this.timed.expiresAt + NAMES_LEASE;
    return isRecent ? { text: this.timed?.accessToken } : {};
  }
}
