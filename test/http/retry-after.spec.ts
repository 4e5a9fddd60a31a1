/** `Retry-After` as a table: how long a pause is, whom it is about, who waits for its end. With real servers: `pauses.spec.ts`. */
import { describe, expect, it } from '@jest/globals';
import { Call } from '../../lib/call/call.js';
import { microtasks } from '../support/moments.js';
import {
  limited,
  list,
  lookup,
  requestOf,
  startPauses,
  token,
  type PausedRequest,
} from '../support/pauses.js';

describe('Retry-After', () => {
  it('lets calls wait that have the time, spread over a tenth of the rest after its end; others fail at once', () => {
    const { clock, limit, turn } = startPauses();
    limit(list, 4_000);
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

  it('lets no more calls wait than may', async () => {
    const { clock, pausesOf, limit, turn } = startPauses();
    limit(list, 4_000);
    const call = new Call(clock, Infinity);
    for (let waiting = 0; waiting < 16; waiting++) {
      expect(turn(list).go).toBe('wait');
      void pausesOf(list).wait(4_000, call);
    }
    expect(turn(list)).toMatchObject({ go: 'fail', retryAfterMs: 4_000, failure: limited });
    call.abort();
    await microtasks(4);
    expect(turn(list).go).toBe('wait');
  });

  it.each([[list], [lookup('a')], [token('s')]])(
    'counts for 60 s at most, and the longest counts: %j',
    (asked) => {
      const { clock, limit, turn } = startPauses();
      limit(asked, 3_600_000);
      limit(asked, 2_000);
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
    const { limit, goes } = startPauses();
    limit(asked, 2_000);
    expect(resting.map(goes)).toEqual(resting.map(() => 'wait'));
    expect(others.map(goes)).toEqual(others.map(() => 'send'));
  });

  it('is about all lookups of a tenant only where another contact is limited meanwhile', () => {
    const { clock, limit, turn, goes } = startPauses();
    limit(lookup('a'), 2_000);
    limit(lookup('a'), 2_000);
    expect(turn(lookup('a'), 1_000)).toMatchObject({ go: 'fail', isOfPartner: false });
    clock.time = 2_000;
    limit(lookup('b'), 2_000);
    expect([goes(lookup('a')), goes(lookup('c'))]).toEqual(['send', 'send']);
    clock.time = 3_000;
    limit(lookup('c'), 2_000);
    expect([goes(lookup('a')), goes(lookup('a', 2))]).toEqual(['wait', 'send']);
    expect(turn(lookup('a'), 1_000)).toMatchObject({ go: 'fail', isOfPartner: true });
  });
});
