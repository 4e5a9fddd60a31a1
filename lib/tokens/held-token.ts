import type { Deadline } from '../time/deadline.js';
import type { RememberedRejection } from './remembered-rejection.js';
import type { TimedToken } from './token-lifetime.js';

/** How long a token that expired still names the lease for the next one, in ms: longer than a lease lives. */
const NAMES_LEASE = 4_000;

/** What the work of a renewal must know of those who wait for it. */
export class RenewalTask {
  /** The host invalidated the token meanwhile. What comes was requested before: it serves those who wait, and is not kept. */
  wasInvalidated = false;

  /**
   * @param deadline of the renewal itself, independent of its callers
   * @param patience for other processes: half of that deadline, and half of the deadline of each caller
   */
  constructor(
    readonly deadline: Deadline,
    readonly patience: Deadline,
  ) {}

  end(): void {
    this.deadline.clear();
    this.patience.clear();
  }
}

/** A renewal that is under way. */
export interface Renewal {
  readonly task: RenewalTask;
  readonly result: Promise<RenewedToken>;
}

/** A new token, and how it was got. `shared`: it came from another process. */
export interface RenewedToken {
  readonly timed: TimedToken;
  readonly outcome: 'fetched' | 'forced' | 'shared';
}

/**
 * The token that the next one replaces, and why. It decides which token of another process is taken in its place. `text` is the
 * access token, times are of {@link Clock.now}.
 */
export type ReplacedToken =
  /** There was none, or it expired long ago: any is taken. */
  | { readonly kind: 'none'; readonly text?: undefined }
  /** It expires soon, or has just expired: any other one is taken. */
  | { readonly kind: 'expiring'; readonly text: string }
  /** The service refused it: one is taken that was requested after `at`, or because the same token was refused elsewhere. */
  | { readonly kind: 'refused'; readonly text: string; readonly at: number }
  /** It came in place of a refused one, and was refused as well: none is taken. */
  | { readonly kind: 'refused-again'; readonly text: string }
  /** The host invalidated it at `at`, or whatever there might be: a token or a rejection is taken that is later than that. */
  | { readonly kind: 'invalidated'; readonly text: string | undefined; readonly at: number };

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
      this.renewal.task.wasInvalidated = true;
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
    return timed !== undefined && now < timed.expiresAt + NAMES_LEASE
      ? { kind: 'expiring', text: timed.accessToken }
      : { kind: 'none' };
  }

  #remove(bad: ReplacedToken): void {
    this.timed = undefined;
    this.#bad = bad;
  }
}
