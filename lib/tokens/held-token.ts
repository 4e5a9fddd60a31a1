import type { AccessToken } from './access-token.interface.js';
import type { Deadline } from '../transport/deadline.js';
import type { Refusal } from './refusal.js';

/** A token and when it is to be renewed and must not be used any more, by the clock that never jumps. */
export interface TimedToken {
  readonly token: AccessToken;
  /** The token as `getToken` answers it, made once: a promise for each call would be most of its cost. */
  readonly answer: Promise<AccessToken>;
  readonly renewAt: number;
  readonly expiresAt: number;
}

/** A renewal under way. */
export interface Renewal {
  readonly result: Promise<TimedToken>;
  /** Its own, not that of any caller. */
  readonly deadline: Deadline;
  readonly outcome: 'fetched' | 'forced';
}

/**
 * What is kept of one tenant's token. It hangs on the tenant's anchor, which lives as long as token URL, client, scope
 * and secret stay what they are: that is the key of this cache. Tenants with equal credentials do not share a token,
 * so that forgetting, refusing or revoking one's says nothing of the other's.
 */
export class HeldToken {
  timed: TimedToken | undefined = undefined;
  renewal: Renewal | undefined = undefined;
  refusal: Refusal | undefined = undefined;
  /** No early renewal before this time, since one failed. */
  pausedUntil = 0;
  /** The next token replaces one that was refused or invalidated. */
  isForced = false;

  /** Lets go of the token; the next one replaces it. */
  drop(): void {
    this.timed = undefined;
    this.isForced = true;
  }
}
