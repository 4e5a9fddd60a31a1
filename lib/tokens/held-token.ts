import type { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import type { AccessToken } from './access-token.interface.js';
import type { Refusal } from './refusal.js';
import { earlyWindow } from './token-lifetime.js';

/** A token with its times, in ms of {@link Clock.now}. */
export interface TimedToken {
  readonly token: AccessToken;
  /** Resolved promise of the token, for `getToken`: created once, since creating it is most of the cost of a hit. */
  readonly answer: Promise<AccessToken>;
  readonly renewAt: number;
  readonly expiresAt: number;
}

/**
 * A token that expires at `expiresAt`, in ms of {@link Clock.now}.
 *
 * @param granted lifetime in ms
 */
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

/** A token request that is under way. */
export interface Renewal {
  readonly result: Promise<TimedToken>;
  /** Deadline of the renewal itself, independent of its callers. */
  readonly deadline: Deadline;
  /** `shared`: the token came from another process. */
  outcome: 'fetched' | 'forced' | 'shared';
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
  /** The next token replaces one that was refused or invalidated. */
  isForced = false;
  /** Text of the token to replace, which the shared store may still hold. */
  replaced: string | undefined = undefined;

  /** Stores a new token. */
  keep(timed: TimedToken): void {
    this.timed = timed;
    this.refusal = undefined;
    this.isForced = false;
    this.replaced = undefined;
  }

  /** Removes the token; the next one replaces it. */
  drop(): void {
    this.replaced = this.timed?.token.accessToken ?? this.replaced;
    this.timed = undefined;
    this.isForced = true;
  }
}
