import type { Call } from '../call/call.js';
import type { TimedToken } from './token-lifetime.js';

/** A token request under way, for all callers. */
export interface Renewal {
  readonly call: Call;
  readonly result: Promise<TimedToken>;
}

/**
 * Why the next token must be another one: the service refused this one, in reply to a request that was sent `at` ({@link Clock.now}), or
 * the host dropped it. A token of another process counts only if it was requested later; once the host dropped it, none counts.
 */
export type Refused =
  { readonly by: 'service'; readonly token: string; readonly at: number } | { readonly by: 'host' };

let lastId = 0;

/**
 * The token of a tenant, and what is known of it. Where the host drops the token, a new state takes the place of this one: a renewal
 * under way, and the rests after its failures, are of the former state.
 */
export class TokenState {
  /** Names it in the rests. */
  readonly id = (lastId += 1);
  /** The token that is held: callers get it while it lasts. */
  token: TimedToken | undefined;
  renewal: Renewal | undefined;

  constructor(public refused?: Refused) {}

  /** The access token that the next one replaces; empty where there is none. */
  get replaced(): string {
    return this.refused?.by === 'service' ? this.refused.token : (this.token?.accessToken ?? '');
  }
}
