import { Injectable } from '@nestjs/common';

/** The one source of time and chance, so that tests can set both. */
@Injectable()
export class Clock {
  /** Milliseconds of a clock that never jumps: for deadlines, lifetimes and waits. */
  now(): number {
    return performance.now();
  }

  /** Milliseconds since 1970: for what is shown or compared with a date of the service. */
  epochMs(): number {
    return Date.now();
  }

  /** A number from 0 up to, but not including, 1. */
  random(): number {
    return Math.random();
  }
}
