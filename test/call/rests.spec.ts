/**
 * The pauses that outlive a call, all rooms together: none is longer than its limit, and none reaches anybody else. What begins each:
 * `test/http/retry-after.spec.ts`, `test/tokens/token-state.spec.ts`.
 */
import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { LONGEST_RESTS, type Rests } from '../../lib/call/partner.js';
import type { Failure } from '../../lib/errors/failure.js';
import { TokenState } from '../../lib/tokens/token-state.js';
import {
  list,
  lookup,
  ORIGIN,
  requestOf,
  startPauses,
  token,
  type PausedRequest,
} from '../support/pauses.js';

const down: Failure = { code: 'token_unavailable', message: 'no token', status: 503 };
const kinds = Object.keys(LONGEST_RESTS) as (keyof typeof LONGEST_RESTS)[];

function start() {
  const pauses = startPauses();
  const states = [1, 2].map((id) => new TokenState(pauses.rests, { id }));
  const stateOf = (tenant: number): TokenState =>
    states[tenant - 1] ?? new TokenState(pauses.rests, { id: 0 });
  return { ...pauses, stateOf };
}

it('a rest lasts for its time at most, the longest counts, and it can be ended', () => {
  const { clock, rests } = start();
  const subject = ['document', 'keys', 1] as const;
  expect([rests.left(subject), rests.find(subject)]).toEqual([0, undefined]);
  rests.begin(subject, 0);
  expect(rests.find(subject)).toBeUndefined();
  rests.begin(subject, Number.MAX_SAFE_INTEGER, down);
  rests.begin(subject, 2_000);
  expect(rests.find(subject)).toEqual({ until: clock.now() + 30_000, length: 30_000, failure: down });
  clock.time = 29_999;
  expect([rests.left(subject), rests.left(['document', 'keys', 2])]).toEqual([1, 0]);
  clock.time = 30_000;
  expect(rests.find(subject)).toBeUndefined();
  rests.begin(subject);
  rests.end(subject);
  expect(rests.left(subject)).toBe(0);
});

describe('whatever happens, in whatever order', () => {
  const contact = fc.constantFrom('a', 'b', 'c');
  const wait = fc.oneof(
    fc.nat(5_000),
    fc.constantFrom(0, 59_999, 60_001, 3_600_000, Number.MAX_SAFE_INTEGER),
  );
  const tenant = fc.constantFrom(1, 2);
  const operation = fc.constantFrom(
    ...(['token', 'list', 'lookup', 'code', 'userinfo', 'keys', 'metadata'] as const),
  );
  type House = ReturnType<typeof start>;
  type Event = { tenant: number; pass: number; tell: (house: House, tenant: number) => void };
  const events: fc.Arbitrary<Event> = fc.record({
    tenant,
    pass: fc.oneof(fc.constant(0), fc.nat(3_000), fc.nat(40_000)),
    tell: fc.oneof(
      fc.tuple(operation, contact, wait).map(([name, about, ms]) => ({ limit }: House, of: number) => {
        limit(requestOf(name, about, of), ms);
      }),
      fc.tuple(contact, fc.boolean()).map(([secret, isPermanent]) => ({ stateOf }: House, of: number) => {
        stateOf(of).requestFailed(ORIGIN, secret, down, isPermanent);
        stateOf(of).renewalFailed();
      }),
      fc.constantFrom('circuit' as const, 'lookup' as const, 'source' as const, 'document' as const).map(
        (kind) =>
          ({ rests }: House, of: number) =>
            rests.begin([kind, of, 'key']),
      ),
      fc.nat(20_000).map(
        (age) =>
          ({ stateOf }: House, of: number) =>
            void stateOf(of).claimAfter401(age),
      ),
    ),
  });
  const all = (of: number): PausedRequest[] =>
    ['a', 'b', 'c'].flatMap((about) => [
      requestOf('list', undefined, of),
      lookup(about, of),
      token(about, of),
      requestOf('code', about, of),
      requestOf('keys', about, of),
    ]);
  const tooLong = (rests: Rests, of: number): string[] =>
    kinds.filter((kind) => rests.left([kind, of, 'key']) > LONGEST_RESTS[kind]);

  it('no rest is longer than its limit, and after it everything is sent', () => {
    fc.assert(
      fc.property(fc.array(events, { maxLength: 30 }), (order) => {
        const house = start();
        const { clock, rests, turn } = house;
        // One comparison for all: each call of expect takes as long as the functions under test.
        const wrong: unknown[] = [];
        for (const { tenant: of, pass, tell } of order) {
          clock.time += pass;
          tell(house, of);
          for (const request of [...all(1), ...all(2)]) {
            const [waits, fails] = [turn(request, Number.MAX_SAFE_INTEGER), turn(request, 0)];
            const isLong = waits.go === 'wait' && waits.ms > 60_000 * 1.1;
            if (isLong || (fails.go === 'fail' && fails.retryAfterMs > 60_000)) {
              wrong.push(request);
            }
          }
          wrong.push(...tooLong(rests, of));
        }
        expect(wrong).toEqual([]);
        clock.time += 60_000;
        const after = [...all(1), ...all(2)].map((request) => turn(request, 0).go);
        expect(new Set(after)).toEqual(new Set(['send']));
      }),
    );
  });

  it('a tenant to whom nothing happened, a forged code and an unreadable key reach nobody else', () => {
    fc.assert(
      fc.property(fc.array(events, { maxLength: 30 }), (order) => {
        const house = start();
        const { clock, rests, limit, turn, stateOf } = house;
        for (const { pass, tell } of order) {
          clock.time += pass;
          tell(house, 1);
          // Of the second tenant, what visitors can cause.
          limit(requestOf('code', 'a', 2), 60_000);
          rests.begin(['source', 'made up']);
        }
        expect(all(2).map((request) => turn(request, 0).go)).toEqual(all(2).map(() => 'send'));
        const state = stateOf(2);
        expect(['a', 'b', 'c'].map((secret) => state.recentFailure(secret))).toEqual(
          [1, 2, 3].map(() => undefined),
        );
        expect([state.mayRenewEarly, rests.left(['source', 'acme']), state.claimReplacement()]).toEqual([
          true,
          0,
          true,
        ]);
      }),
    );
  });

  it('one contact that is limited never holds up another', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(5_000), wait), { maxLength: 30 }), (order) => {
        const { clock, limit, turn } = start();
        for (const [pass, ms] of order) {
          clock.time += pass;
          limit(lookup('a'), ms);
          expect([turn(lookup('b'), 0).go, turn(list, 0).go]).toEqual(['send', 'send']);
        }
      }),
    );
  });
});
