/** The pauses that outlive a call: how long each is, whom it is about, and that it reaches nobody else. */
import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { LONGEST_RESTS, Rests, type PausedRequest, type Subject, type Turn } from '../../lib/call/rests.js';
import type { Failure } from '../../lib/errors/failure.js';
import { StoppedClock } from '../support/clock.js';

const SECOND = 1_000;
const ORIGIN = 'https://api.example.com';
const limited: Failure = { code: 'rate_limited', message: 'the service limits our requests', status: 429 };
const down: Failure = { code: 'token_unavailable', message: 'no token', status: 503 };
const wrong: Failure = { code: 'token_rejected', message: 'refused', oauthError: 'invalid_client' };

const requestOf = (operation: string, about?: string, tenant = 1, origin = ORIGIN): PausedRequest => ({
  tenant,
  origin,
  operation,
  about,
});
const list = requestOf('list');
const lookup = (contact: string, tenant?: number): PausedRequest => requestOf('lookup', contact, tenant);
const token = (secret: string, tenant?: number): PausedRequest => requestOf('token', secret, tenant);
const refusal = (secret: string, tenant = 1): Subject => ['refusal', tenant, secret];

function start() {
  const clock = new StoppedClock();
  clock.random = () => 0.5;
  const rests = new Rests(clock);
  /** What a call with so much time may do. */
  const turn = (request: PausedRequest, remaining = 10 * SECOND, mostWaiting = 16): Turn =>
    rests.turn(request, remaining, mostWaiting);
  return { clock, rests, turn, goes: (request: PausedRequest) => turn(request).go };
}

describe('Retry-After', () => {
  it('lets calls wait that have the time, spread over a tenth of the rest after its end; others fail at once', () => {
    const { clock, rests, turn } = start();
    rests.askedToWait(list, 4_000, limited);
    clock.time = 1_000;
    expect(turn(list)).toMatchObject({ go: 'wait', ms: 3_000 + 0.5 * 400 });
    // No later than half of the time that is left then.
    expect(turn(list, 3_200)).toMatchObject({ go: 'wait', ms: 3_000 + 0.5 * 100 });
    expect(turn(list, 3_000)).toEqual({
      go: 'fail',
      retryAfterMs: 3_000,
      failure: limited,
      isOfPartner: true,
    });
    clock.time = 4_000;
    expect(turn(list)).toEqual({ go: 'send' });
  });

  it('lets no more calls wait than may', () => {
    const { rests, turn } = start();
    rests.askedToWait(list, 4_000, limited);
    for (let call = 0; call < 16; call++) {
      const waits = turn(list);
      expect(waits.go).toBe('wait');
      if (waits.go === 'wait') {
        waits.rest.waiting += 1;
      }
    }
    expect(turn(list)).toMatchObject({ go: 'fail', retryAfterMs: 4_000, failure: limited });
  });

  it.each([[list], [lookup('a')], [token('s')]])(
    'counts for 60 s at most, and the longest counts: %j',
    (asked) => {
      const { clock, rests, turn } = start();
      rests.askedToWait(asked, 3_600_000, limited);
      rests.askedToWait(asked, 2_000, limited);
      expect(turn(asked)).toMatchObject({ go: 'fail', retryAfterMs: 60_000 });
      clock.time = 60_000;
      expect(turn(asked).go).toBe('send');
    },
  );

  it.each<[asked: PausedRequest, resting: PausedRequest[], others: PausedRequest[]]>([
    [
      list,
      [list],
      [
        lookup('a'),
        token('s'),
        requestOf('list', undefined, 2),
        requestOf('list', undefined, 1, 'https://other'),
      ],
    ],
    [lookup('a'), [lookup('a')], [list, lookup('b'), lookup('a', 2), token('s')]],
    [token('s'), [token('s')], [list, lookup('a'), token('other'), token('s', 2), requestOf('code', 's')]],
    [requestOf('code'), [], [list, lookup('a'), token('s'), requestOf('code'), requestOf('userinfo')]],
    [requestOf('keys'), [], [requestOf('keys'), requestOf('metadata'), list]],
    [requestOf('userinfo'), [], [requestOf('userinfo'), list, lookup('a')]],
  ])('is about its tenant, origin and purpose, a contact or a secret: %j', (asked, resting, others) => {
    const { rests, goes } = start();
    rests.askedToWait(asked, 2_000, limited);
    expect(resting.map(goes)).toEqual(resting.map(() => 'wait'));
    expect(others.map(goes)).toEqual(others.map(() => 'send'));
  });

  it('is about all lookups of a tenant only where another contact is limited meanwhile', () => {
    const { clock, rests, turn, goes } = start();
    rests.askedToWait(lookup('a'), 2_000, limited);
    rests.askedToWait(lookup('a'), 2_000, limited);
    expect(turn(lookup('a'), SECOND)).toMatchObject({ go: 'fail', isOfPartner: false });
    clock.time = 2_000;
    rests.askedToWait(lookup('b'), 2_000, limited);
    expect([goes(lookup('a')), goes(lookup('c'))]).toEqual(['send', 'send']);
    clock.time = 3_000;
    rests.askedToWait(lookup('c'), 2_000, limited);
    expect([goes(lookup('a')), goes(lookup('a', 2))]).toEqual(['wait', 'send']);
    expect(turn(lookup('a'), SECOND)).toMatchObject({ go: 'fail', isOfPartner: true });
  });
});

describe('a token request that failed', () => {
  it.each<[what: string, isPermanent: boolean, failure: Failure, ms: number]>([
    ['for good', true, wrong, 30_000],
    ['otherwise', false, down, 1_000],
  ])('%s is not repeated with that secret for a while', (_what, isPermanent, failure, ms) => {
    const { clock, rests } = start();
    rests.tokenFailed(1, token('s'), failure, isPermanent);
    clock.time = ms - 1;
    expect(rests.failure(refusal('s'))).toBe(failure);
    expect([refusal('other'), refusal('s', 2)].map((other) => rests.failure(other))).toEqual([
      undefined,
      undefined,
    ]);
    clock.time = ms;
    expect(rests.failure(refusal('s'))).toBeUndefined();
  });

  it('may wait instead, where the endpoint asked for a pause', () => {
    const { rests, goes } = start();
    expect(rests.askedToWait(token('s'), 40_000, limited)).toBe(40_000);
    rests.tokenFailed(1, token('s'), limited, false);
    expect([rests.failure(refusal('s')), goes(token('s'))]).toEqual([undefined, 'fail']);
  });

  it.each<[what: string, tell: (rests: Rests) => void, ms: number]>([
    ['without an answer', (rests) => rests.tokenFailed(1, token('s'), down, false), 5_000],
    ['for good', (rests) => rests.tokenFailed(1, token('s'), wrong, true), 30_000],
    [
      'with Retry-After',
      (rests) => {
        rests.askedToWait(token('s'), 40_000, limited);
        rests.tokenFailed(1, token('s'), limited, false);
      },
      40_000,
    ],
  ])('(%s) lets the held token serve', (_what, tell, ms) => {
    const { clock, rests } = start();
    tell(rests);
    rests.renewalFailed(1);
    clock.time = ms - 1;
    expect(rests.left(['renewal', 1])).toBe(1);
    expect(rests.left(['renewal', 2])).toBe(0);
    clock.time = ms;
    expect(rests.left(['renewal', 1])).toBe(0);
  });
});

it('a token that the service refused is renewed once in 10 s, and one that is younger is not', () => {
  const { clock, rests } = start();
  expect(rests.mayReplace(1, 9_999)).toBe(false);
  expect(rests.mayReplace(1, 10_000)).toBe(true);
  expect([rests.mayReplace(1, 60_000), rests.mayReplace(1)]).toEqual([false, false]);
  expect(rests.mayReplace(2)).toBe(true);
  clock.time = 10_000;
  expect(rests.mayReplace(1)).toBe(true);
});

describe('whatever happens, in whatever order', () => {
  const contact = fc.constantFrom('a', 'b', 'c');
  const wait = fc.oneof(
    fc.nat(5_000),
    fc.constantFrom(0, 59_999, 60_001, 3_600_000, Number.MAX_SAFE_INTEGER),
  );
  const tenant = fc.constantFrom(1, 2);
  const operation = fc.constantFrom('token', 'list', 'lookup', 'code', 'userinfo', 'keys', 'metadata');
  type Event = { tenant: number; pass: number; tell: (rests: Rests, tenant: number) => void };
  const events: fc.Arbitrary<Event> = fc.record({
    tenant,
    pass: fc.oneof(fc.constant(0), fc.nat(3_000), fc.nat(40_000)),
    tell: fc.oneof(
      fc.tuple(operation, contact, wait).map(([name, about, ms]) => (rests: Rests, of: number) => {
        rests.askedToWait(requestOf(name, about, of), ms, limited);
      }),
      fc.tuple(contact, fc.boolean()).map(([secret, isPermanent]) => (rests: Rests, of: number) => {
        rests.tokenFailed(of, token(secret, of), down, isPermanent);
        rests.renewalFailed(of);
      }),
      fc.constantFrom('circuit', 'lookup', 'source', 'document').map((kind) => (rests: Rests, of: number) => {
        rests.begin([kind as 'circuit', of, 'key']);
      }),
      fc.nat(20_000).map((age) => (rests: Rests, of: number) => void rests.mayReplace(of, age)),
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
  const kinds = Object.keys(LONGEST_RESTS) as (keyof typeof LONGEST_RESTS)[];

  it('no rest is longer than its limit, and after it everything is sent', () => {
    fc.assert(
      fc.property(fc.array(events, { maxLength: 30 }), (order) => {
        const { clock, rests, turn } = start();
        // One comparison for all: each call of expect takes as long as the functions under test.
        const tooLong: unknown[] = [];
        for (const { tenant: of, pass, tell } of order) {
          clock.time += pass;
          tell(rests, of);
          for (const request of [...all(1), ...all(2)]) {
            const [waits, fails] = [turn(request, Number.MAX_SAFE_INTEGER), turn(request, 0)];
            const isLong = waits.go === 'wait' && waits.ms > 60_000 * 1.1;
            if (isLong || (fails.go === 'fail' && fails.retryAfterMs > 60_000)) {
              tooLong.push(request);
            }
          }
          tooLong.push(...kinds.filter((kind) => rests.left([kind, of, 'key']) > LONGEST_RESTS[kind]));
        }
        expect(tooLong).toEqual([]);
        clock.time += 60_000;
        const after = [...all(1), ...all(2)].map((request) => turn(request, 0).go);
        expect(new Set(after)).toEqual(new Set(['send']));
      }),
    );
  });

  it('a tenant to whom nothing happened, a forged code and an unreadable key reach nobody else', () => {
    fc.assert(
      fc.property(fc.array(events, { maxLength: 30 }), (order) => {
        const { clock, rests, turn } = start();
        for (const { pass, tell } of order) {
          clock.time += pass;
          tell(rests, 1);
          // Of the second tenant, what visitors can cause.
          rests.askedToWait(requestOf('code', 'a', 2), 60_000, limited);
          rests.begin(['source', 'made up']);
        }
        expect(all(2).map((request) => turn(request, 0).go)).toEqual(all(2).map(() => 'send'));
        expect(['a', 'b', 'c'].map((secret) => rests.failure(refusal(secret, 2)))).toEqual(
          [1, 2, 3].map(() => undefined),
        );
        expect([rests.left(['renewal', 2]), rests.left(['source', 'acme']), rests.mayReplace(2)]).toEqual([
          0,
          0,
          true,
        ]);
      }),
    );
  });

  it('one contact that is limited never holds up another', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(5_000), wait), { maxLength: 30 }), (order) => {
        const { clock, rests, turn } = start();
        for (const [pass, ms] of order) {
          clock.time += pass;
          rests.askedToWait(lookup('a'), ms, limited);
          expect([turn(lookup('b'), 0).go, turn(list, 0).go]).toEqual(['send', 'send']);
        }
      }),
    );
  });

  it('a user who names events that are refused costs one token request in 10 s at most', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(4_000), fc.boolean()), { maxLength: 60 }), (order) => {
        const { clock, rests } = start();
        let requestedAt = Number.NEGATIVE_INFINITY;
        let last = Number.NEGATIVE_INFINITY;
        for (const [pass, is401] of order) {
          clock.time += pass;
          if (rests.mayReplace(1, is401 ? clock.time - requestedAt : undefined)) {
            expect(clock.time - last).toBeGreaterThanOrEqual(10_000);
            last = clock.time;
            requestedAt = clock.time;
          }
        }
      }),
    );
  });
});
