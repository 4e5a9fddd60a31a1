import type { Clock } from '../time/clock.js';
import type { HeldToken } from './held-token.js';
import type { TimedToken } from './token-lifetime.js';

/** Proof that the token endpoint grants tokens, for health checks. */
export interface TokenProof {
  /** Ms since the token that calls use was requested. */
  age: number;
  /** Why there is no newer one, where that is no proof. */
  error: unknown;
}

/**
 * A token that was requested within the last `maxAge` ms, by this process or another one; else a new one is requested, and calls use
 * the held one meanwhile. Where that fails, the held one while it is good, with the error.
 *
 * @param next waits for the next token
 * @throws what `next` throws, where there is no good token either
 */
export async function proveTokens(
  held: HeldToken,
  maxAge: number,
  clock: Clock,
  next: () => Promise<TimedToken>,
): Promise<TokenProof> {
  const since = clock.now() - maxAge;
  let timed = held.goodAt(clock.now());
  let error: unknown;
  try {
    while (timed === undefined || timed.requestedAt < since) {
      timed = await next();
      // That of another process may be old. The next one is not the same.
      if (!timed.isShared) {
        break;
      }
    }
  } catch (failure) {
    error = failure;
    timed = held.goodAt(clock.now());
    if (timed === undefined) {
      throw failure;
    }
  }
  return { age: clock.now() - timed.requestedAt, error };
}
