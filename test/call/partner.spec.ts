import { describe, expect, it } from '@jest/globals';
import { Partner } from '../../lib/call/partner.js';

/** Time that a request has, in ms. It is late after 900. */
const PATIENCE = 1_000;

/** What happens to the partner of a call; a number: so many ms pass. */
type Step = 'asked' | 'answered' | 'failed' | 'excused' | number;

function partnerAfter(steps: readonly Step[]): Pick<Partner, 'isSuspect'> & { hasFailed: boolean } {
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
  return { hasFailed: partner.hasFailedOrIsLate(now, PATIENCE), isSuspect: partner.isSuspect };
}

describe('the partner of a call', () => {
  it.each<[steps: Step[], hasFailed: boolean, isSuspect: boolean]>([
    [[], false, false],
    [['asked'], false, true],
    [['asked', 899], false, true],
    [['asked', 900], true, true],
    [['asked', 900, 'answered'], false, true],
    [['asked', 'failed'], true, true],
    [['asked', 'excused'], false, false],
    [['asked', 900, 'excused'], false, false],
    // It was left alone after an earlier failure: no request was sent.
    [['failed'], true, false],
    [['asked', 'answered', 'asked', 'excused'], false, false],
    [['asked', 'answered', 'asked', 899], false, true],
    [['asked', 'failed', 'asked', 'answered'], false, true],
    [['asked', 'failed', 'asked'], true, true],
    // What fails here later says nothing against what it did before.
    [['asked', 'failed', 'asked', 'excused'], true, true],
    [['asked', 'failed', 'asked', 'excused', 'asked', 'excused'], true, true],
    [['asked', 'failed', 'asked', 'answered', 'asked', 'excused'], false, false],
    [['asked', 'excused', 'asked', 'failed'], true, true],
    [['asked', 'excused', 'asked', 'excused'], false, false],
    // Only the request under way counts.
    [['asked', 500, 'excused', 'asked', 500], false, true],
    [['asked', 500, 'answered', 'asked', 500], false, true],
  ])('after %j: has failed %p, is suspect %p', (steps, hasFailed, isSuspect) => {
    expect(partnerAfter(steps)).toEqual({ hasFailed, isSuspect });
  });
});
