import type { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import type { AccessToken } from './access-token.interface.js';
import type { Refusal } from './refusal.js';
import { earlyWindow } from './token-lifetime.js';

/** How long the token that expired still names the lease for the next one, in ms: longer than a lease lives. */
const NAMES_LEASE = 2_000;

/** A token as the token endpoint granted it. */
export interface GrantedToken {
  accessToken: string;
  scope?: string;
  /** In ms. It starts when the request is sent: the token may be that old when the reply arrives. */
  lifetime: number;
  /** When it was requested, in ms of {@link Clock.now}. For a token of another process, as far as the clocks of both agree. */
  requestedAt: number;
  /** It came from the shared store. */
  isShared: boolean;
}

/** A token with its times, in ms of {@link Clock.now}. Each tenant keeps one: what can be computed is no field. */
export class TimedToken {
  readonly accessToken: string;
  readonly scope: string | undefined;
  readonly lifetime: number;
  readonly requestedAt: number;
  readonly isShared: boolean;
  /** How long before its end the token is renewed, in ms. */
  readonly #early: number;
  /** End of the lifetime in ms since 1970. */
  readonly #endsAt: number;

  constructor({ accessToken, scope, lifetime, requestedAt, isShared }: GrantedToken, clock: Clock) {
    this.accessToken = accessToken;
    this.scope = scope;
    this.lifetime = lifetime;
    this.requestedAt = requestedAt;
    this.isShared = isShared;
    this.#early = Math.round(earlyWindow(lifetime, clock.random()));
    this.#endsAt = Math.round(clock.epochMs() + this.expiresAt - clock.now());
  }

  get expiresAt(): number {
    return this.requestedAt + this.lifetime;
  }

  get renewAt(): number {
    return this.expiresAt - this.#early;
  }

  /** The token as hosts get it. */
  toAccessToken(): AccessToken {
    const { accessToken, scope } = this;
    return Object.freeze({ accessToken, tokenType: 'Bearer', scope, expiresAt: new Date(this.#endsAt) });
  }
}

/** A token request that is under way. */
export interface Renewal {
  readonly result: Promise<TimedToken>;
  /** Deadline of the renewal itself, independent of its callers. */
  readonly deadline: Deadline;
  /** `shared`: the token came from another process. */
  outcome: 'fetched' | 'forced' | 'shared';
}

/** What the next token replaces, and which tokens and refusals of other processes do not count. Times of {@link Clock.now}. */
export interface Replacement {
  /** Text of the token to replace, which the shared store may still hold. */
  readonly text?: string;
  /** When the request was sent that the service refused with this token: equally old tokens may be revoked as well. */
  readonly refusedAt?: number;
  /** A token of another process was refused as well: the endpoint must be asked by this process. */
  readonly isAlone?: boolean;
  /** Refusals that were shared before this time do not count. */
  readonly forgivenAt?: number;
}

/**
 * State of one tenant's token. It belongs to the tenant's `stateKey`, which changes with token URL, client, scope and secret.
 * Tenants with equal credentials have separate tokens: forgetting or revoking one does not affect the other.
 */
export class HeldToken {
  timed: TimedToken | undefined = undefined;
  renewal: Renewal | undefined = undefined;
  refusal: Refusal | undefined = undefined;
  /** No early renewal before this time, because one failed. In ms of {@link Clock.now}. */
  pausedUntil = 0;
  /** What was dropped and not replaced yet. */
  #dropped: Replacement | undefined = undefined;

  /** The next token replaces one that was refused or invalidated. */
  get isForced(): boolean {
    return this.#dropped !== undefined;
  }

  /** Stores a new token. */
  keep(timed: TimedToken): void {
    this.timed = timed;
    this.refusal = undefined;
    this.#dropped = undefined;
  }

  /** Removes the token, which was refused at `refusedAt`; the next one replaces it. */
  drop(refusedAt: number, more: Pick<Replacement, 'isAlone' | 'forgivenAt'> = {}): void {
    const text = this.timed?.accessToken ?? this.#dropped?.text;
    this.timed = undefined;
    this.#dropped = { ...this.#dropped, ...more, text, refusedAt };
  }

  /**
   * Removes the token, which the service refused in a request that was sent at `sentAt`. Services round the end of a token to
   * seconds: one in its early window has probably ended, so that any token which was requested after it is good.
   */
  dropRefused(sentAt: number, more?: Pick<Replacement, 'isAlone'>): void {
    const { timed } = this;
    const hasEnded = timed !== undefined && sentAt >= timed.expiresAt - earlyWindow(timed.lifetime, 0);
    this.drop(hasEnded ? timed.requestedAt : sentAt, more);
  }

  /** What the next token replaces. */
  replacement(now: number): Replacement {
    if (this.#dropped !== undefined) {
      return this.#dropped;
    }
    // Idle processes hold different tokens that expired long ago. Their next token replaces none of them.
    const isRecent = this.timed !== undefined && now < this.timed.expiresAt + NAMES_LEASE;
    return isRecent ? { text: this.timed?.accessToken } : {};
  }
}
