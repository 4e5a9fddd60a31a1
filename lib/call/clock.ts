import { Injectable } from '@nestjs/common';

/** Longest delay of a Node timer, in ms (2³¹ − 1). A longer one fires at once. */
export const LONGEST_TIMER = 2_147_483_647;

/** The only source of time and randomness, so that tests can control both. */
@Injectable()
export class Clock {
  /**
   * Monotonic time in milliseconds: for deadlines, lifetimes and waits. Never 0, where fakes of `performance` start: lru-cache takes an
   * entry that was set then for one without an end.
   */
  now(): number {
    return performance.now() + 1;
  }

  /** Milliseconds since 1970: for dates that are shown, stored or compared with a date of the service. */
  epochMs(): number {
    return Date.now();
  }

  /** A random number from 0 (inclusive) to 1 (exclusive). */
  random(): number {
    return Math.random();
  }
}
