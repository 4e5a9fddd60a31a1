import { describe, expect, it } from '@jest/globals';
import { Clock } from '../../lib/time/clock.js';
import { Deadlines } from '../../lib/time/deadline.js';

const clock = new Clock();

describe('the deadlines of a module', () => {
  it('all end when the module closes, and so does one that starts later', () => {
    const deadlines = new Deadlines(clock);
    const running = [deadlines.start(5_000), deadlines.start(5_000, new AbortController().signal)];
    deadlines.close();
    for (const deadline of [...running, deadlines.start(5_000)]) {
      expect(deadline.failure()).toMatchObject({
        code: 'service_unavailable',
        message: 'the module was closed',
      });
      expect(deadline.isOver).toBe(true);
    }
    expect(deadlines.isClosed).toBe(true);
  });

  it('leave alone a call that is done', () => {
    const deadlines = new Deadlines(clock);
    const done = deadlines.start(5_000);
    done.clear();
    deadlines.close();
    expect(done.isOver).toBe(false);
  });

  it('end as their signal says, also one that has aborted already', () => {
    const deadlines = new Deadlines(clock);
    const aborted = deadlines.start(5_000, AbortSignal.abort());
    deadlines.close();
    expect(aborted.failure()).toMatchObject({ code: 'aborted' });
  });
});
