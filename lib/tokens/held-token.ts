import type { AccessToken } from './access-token.interface.js';
import type { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import type { Refusal } from './refusal.js';
import { earlyWindow } from './token-lifetime.js';

/** A token and when it is to be renewed and must not be used any more, by the clock that never jumps. */
export interface TimedToken {
  readonly token: AccessToken;
  /** The token as `getToken` answers it, made once: a promise for each call would be most of its cost. */
  readonly answer: Promise<AccessToken>;
  readonly renewAt: number;
  readonly expiresAt: number;
}

/** A token as it is kept until `expiresAt`, by the clock that never jumps. */
export function timedToken(
  granted: { accessToken: string; scope?: string; lifetime: number },
  expiresAt: number,
  clock: Clock,
): TimedToken {
  const { accessToken, scope, lifetime } = granted;
  const token = Object.freeze({
    accessToken,
    tokenType: 'Bearer',
    scope,
    expiresAt: new Date(clock.epochMs() + expiresAt - clock.now()),
  } as const);
  const renewAt = expiresAt - earlyWindow(lifetime, clock.random());
  return { token, answer: Promise.resolve(token), renewAt, expiresAt };
}

/** A renewal under way. */
export interface Renewal {
  readonly result: Promise<TimedToken>;
  /** Its own, not that of any caller. */
  readonly deadline: Deadline;
  /** `shared`: another process had fetched it. */
  outcome: 'fetched' | 'forced' | 'shared';
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
  /** The token that the next one replaces: another process may still share it. */
  replaced: string | undefined = undefined;

  /** Takes a new token. */
  keep(timed: TimedToken): void {
    this.timed = timed;
    this.refusal = undefined;
    this.isForced = false;
    this.replaced = undefined;
  }

  /** Lets go of the token; the next one replaces it. */
  drop(): void {
    this.replaced = this.timed?.token.accessToken ?? this.replaced;
    this.timed = undefined;
    this.isForced = true;
  }
}
