import { describe, expect, it } from '@jest/globals';
import { Partner } from '../../lib/call/partner.js';

/** Time that a request has, in ms. It is late after 900. */
const PATIENCE = 1_000;

/** What happens to the partner of a call; a number: so many ms pass. */
type Step = 'asked' | 'answered' | 'failed' | 'excused' | number;

function partnerAfter(steps: readonly Step[]): Pick<Partner, 'isExcused'> & { hasFailed: boolean } {
  const partner = new Partner();
  let now = 0;
  for (const step of steps) {
    if (typeof step === 'number') {
      now += step;
    } else if (step === 'asked') {
      partner.wasAsked(now);
    } else {
      partner[step]();
    }
  }
  return { hasFailed: partner.hasFailedOrIsLate(now, PATIENCE), isExcused: partner.isExcused };
}

describe('the partner of a call', () => {
  it.each<[steps: Step[], hasFailed: boolean, isExcused: boolean]>([
    [[], false, true],
    [['asked'], false, false],
    [['asked', 899], false, false],
    [['asked', 900], true, false],
    [['asked', 900, 'answered'], false, false],
    [['asked', 'failed'], true, false],
    [['asked', 'excused'], false, true],
    [['asked', 900, 'excused'], false, true],
    // It was left alone after an earlier failure: no request was sent.
    [['failed'], true, true],
    [['asked', 'answered', 'asked', 'excused'], false, true],
    [['asked', 'answered', 'asked', 899], false, false],
    [['asked', 'failed', 'asked', 'answered'], false, false],
    [['asked', 'failed', 'asked'], true, false],
    // What fails here later says nothing against what it did before.
    [['asked', 'failed', 'asked', 'excused'], true, false],
    [['asked', 'failed', 'asked', 'excused', 'asked', 'excused'], true, false],
    [['asked', 'failed', 'asked', 'answered', 'asked', 'excused'], false, true],
    [['asked', 'excused', 'asked', 'failed'], true, false],
    [['asked', 'excused', 'asked', 'excused'], false, true],
    // Only the request under way counts.
    [['asked', 500, 'excused', 'asked', 500], false, false],
    [['asked', 500, 'answered', 'asked', 500], false, false],
  ])('after %j: has failed %p, is excused %p', (steps, hasFailed, isExcused) => {
    expect(partnerAfter(steps)).toEqual({ hasFailed, isExcused });
  });
});
