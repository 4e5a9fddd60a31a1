import type { INestApplicationContext } from '@nestjs/common';
import { Clock } from '../../lib/call/clock.js';

/** What Jest leaves as it is where a test fakes `setTimeout` and `clearTimeout` only. */
export const KEPT_TIMERS = [
  'Date',
  'hrtime',
  'nextTick',
  'performance',
  'queueMicrotask',
  'setImmediate',
  'clearImmediate',
  'setInterval',
  'clearInterval',
] as const;

/** A clock that runs `ahead` of the real one; `chance` is its random number. */
export class TestClock extends Clock {
  /** In milliseconds. */
  ahead = 0;

  constructor(public chance = 0.5) {
    super();
  }

  override now(): number {
    return super.now() + this.ahead;
  }

  override epochMs(): number {
    return super.epochMs() + this.ahead;
  }

  override random(): number {
    return this.chance;
  }
}

/** A clock that stands still at `time` until a test moves it. */
export class StoppedClock extends Clock {
  /** In milliseconds. */
  time = 0;

  override now(): number {
    return this.time + 1;
  }
}

export type MovedClock = ReturnType<typeof clockOf>;

/** Moves the clocks of a running application: the one for waits (`now`) and the one for dates (`epochMs`). */
export function clockOf(app: INestApplicationContext) {
  const clock = app.get(Clock, { strict: false });
  return {
    skip(ms: number, which: readonly ('now' | 'epochMs')[] = ['now', 'epochMs']): void {
      for (const name of which) {
        const before = clock[name].bind(clock);
        clock[name] = () => before() + ms;
      }
    },
    back(): void {
      for (const name of ['now', 'epochMs'] as const) {
        Reflect.deleteProperty(clock, name);
      }
    },
  };
}
