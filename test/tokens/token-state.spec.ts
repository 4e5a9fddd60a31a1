/** When a token is requested again after a failure or a refusal, as a table. With real servers: `tokens.spec.ts`. */
import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { Rests } from '../../lib/call/partner.js';
import type { Failure } from '../../lib/errors/failure.js';
import { TokenState } from '../../lib/tokens/token-state.js';
import { StoppedClock } from '../support/clock.js';
import { limited, ORIGIN, startPauses, token } from '../support/pauses.js';

const down: Failure = { code: 'token_unavailable', message: 'no token', status: 503 };
const wrong: Failure = { code: 'token_rejected', message: 'refused', oauthError: 'invalid_client' };

function start() {
  const clock = new StoppedClock();
  const rests = new Rests(clock);
  const stateOf = (id: number) => new TokenState(rests, { id });
  return { clock, stateOf, state: stateOf(1) };
}

describe('a token request that failed', () => {
  it.each<[what: string, isPermanent: boolean, failure: Failure, ms: number]>([
    ['for good', true, wrong, 30_000],
    ['otherwise', false, down, 1_000],
  ])('%s is not repeated with that secret for a while', (_what, isPermanent, failure, ms) => {
    const { clock, stateOf, state } = start();
    state.requestFailed(ORIGIN, 's', failure, isPermanent);
    clock.time = ms - 1;
    expect(state.recentFailure('s')).toBe(failure);
    // Another secret, a tenant whose token the host dropped, and another tenant.
    const others = [
      state.recentFailure('other'),
      stateOf(1).recentFailure('s'),
      stateOf(2).recentFailure('s'),
    ];
    expect(others).toEqual([undefined, undefined, undefined]);
    clock.time = ms;
    expect(state.recentFailure('s')).toBeUndefined();
  });

  it('may wait instead, where the endpoint asked for a pause', () => {
    const { rests, limit, goes } = startPauses();
    const state = new TokenState(rests, { id: 1 });
    expect(limit(token('s'), 40_000)).toBe(40_000);
    state.requestFailed(ORIGIN, 's', limited, false);
    expect([state.recentFailure('s'), goes(token('s'))]).toEqual([undefined, 'fail']);
  });

  it.each<[what: string, pause: number, failure: Failure, isPermanent: boolean, ms: number]>([
    ['without an answer', 0, down, false, 5_000],
    ['for good', 0, wrong, true, 30_000],
    ['with Retry-After', 40_000, limited, false, 40_000],
  ])('(%s) lets the held token serve', (_what, pause, failure, isPermanent, ms) => {
    const { clock, rests, limit } = startPauses();
    const [state, other] = [new TokenState(rests, { id: 1 }), new TokenState(rests, { id: 2 })];
    limit(token('s'), pause);
    state.requestFailed(ORIGIN, 's', failure, isPermanent);
    state.renewalFailed();
    clock.time = ms - 1;
    expect([state.mayRenewEarly, other.mayRenewEarly]).toEqual([false, true]);
    clock.time = ms;
    expect(state.mayRenewEarly).toBe(true);
  });
});

describe('a token that the service refused', () => {
  it('is renewed once in 10 s, also where the host drops it meanwhile; one that is younger is not', () => {
    const { clock, stateOf, state } = start();
    expect(state.claimAfter401(9_999)).toBe(false);
    expect(state.claimAfter401(10_000)).toBe(true);
    expect([state.claimAfter401(60_000), state.claimReplacement(), stateOf(1).claimReplacement()]).toEqual([
      false,
      false,
      false,
    ]);
    expect(stateOf(2).claimReplacement()).toBe(true);
    clock.time = 10_000;
    expect(state.claimReplacement()).toBe(true);
  });

  it('costs one token request in 10 s at most, whatever events a user names', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(4_000), fc.boolean()), { maxLength: 60 }), (order) => {
        const { clock, state } = start();
        let requestedAt = Number.NEGATIVE_INFINITY;
        let last = Number.NEGATIVE_INFINITY;
        for (const [pass, is401] of order) {
          clock.time += pass;
          if (is401 ? state.claimAfter401(clock.time - requestedAt) : state.claimReplacement()) {
            expect(clock.time - last).toBeGreaterThanOrEqual(10_000);
            last = clock.time;
            requestedAt = clock.time;
          }
        }
      }),
    );
  });
});
