import { describe, expect, it } from '@jest/globals';
import { Calls, SharedWorks } from '../../lib/call/calls.service.js';
import { StoppedClock } from '../support/clock.js';

/** Each work has an hour: a timer that is left would hold the process. */
const HOUR = 3_600_000;

function startWork() {
  const calls = new Calls(new StoppedClock());
  const works = new SharedWorks<string, string>(calls);
  let end: (error?: Error) => void = () => undefined;
  const work = new Promise<string>((resolve, reject) => {
    end = (error) => (error === undefined ? resolve('first') : reject(error));
  });
  const { result } = works.start('key', HOUR, () => work);
  return { calls, works, result, end: (error?: Error) => end(error) };
}

const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;

describe('shared work', () => {
  // `Call.run` clears a call some microtasks after its work has ended: to join it then would begin a timer that nothing clears.
  it.each([0, 1, 2, 3, 4, 5, 6])(
    'that ended: one who asks %i microtasks later gets its result or begins another; no timer is left',
    async (microtasks) => {
      for (const error of [undefined, new Error('of the work')]) {
        const before = timers();
        const { calls, works, result, end } = startWork();
        end(error);
        for (let at = 0; at < microtasks; at += 1) {
          await undefined;
        }
        const running = works.joinable('key');
        const caller = calls.start(2 * HOUR);
        const joined = await caller
          .run(() => caller.join(running ?? works.start('key', HOUR, async () => 'another')))
          .catch((thrown: unknown) => thrown);
        expect(joined).toBe(running === undefined ? 'another' : (error ?? 'first'));
        await result.catch(() => undefined);
        expect([works.size, timers() - before]).toEqual([0, 0]);
      }
    },
  );

  it('that ends leaves later work of its key to be joined', async () => {
    const { works, result, end } = startWork();
    works.forget('key');
    let endLater: (value: string) => void = () => undefined;
    const later = works.start('key', HOUR, () => new Promise((resolve) => (endLater = resolve)));
    end();
    expect([await result, works.joinable('key') === later]).toEqual(['first', true]);
    endLater('later');
    expect([await later.result, works.size]).toEqual(['later', 0]);
  });
});
