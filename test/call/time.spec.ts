import { getEventListeners, getMaxListeners, once } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { Clock } from '../../lib/call/clock.js';
import { Deadline, onAbort } from '../../lib/call/deadline.js';
import { TimeoutError, withTimeout } from '../../lib/call/time-limit.js';
import { createCache } from '../../lib/call/expiring-cache.js';
import { StoppedClock } from '../support/clock.js';
import { pause } from '../support/wait.js';

/** How calls end by their deadlines and signals: test/exhibitors/leaving.spec.ts, test/http/leaving.spec.ts. */
describe('a deadline', () => {
  const clock = new Clock();

  it.each<[end: string, code: string, isTimeUp: boolean]>([
    ['its time', 'deadline_exceeded', true],
    ['the signal of its caller', 'aborted', false],
    ['the close of the module', 'service_unavailable', false],
  ])('ends by %s, whatever ends it later, and calls its listeners once', async (end, code, isTimeUp) => {
    const caller = new AbortController();
    const deadline = new Deadline(clock, end === 'its time' ? 20 : 5_000, caller.signal);
    let calls = 0;
    deadline.onOver(() => (calls += 1));
    if (end.startsWith('the signal')) {
      caller.abort();
    } else if (end.startsWith('the close')) {
      deadline.close();
    }
    await expect(deadline.race(new Promise(() => {}))).rejects.toMatchObject({ code });
    caller.abort();
    deadline.close();
    deadline.onOver(() => (calls += 1));
    expect([deadline.failure().code, deadline.isTimeUp, deadline.remaining()]).toEqual([code, isTimeUp, 0]);
    expect(calls).toBe(2);
  });

  it('releases timer, listeners and the signal of the caller when it is done, once or more', async () => {
    const controller = new AbortController();
    const deadline = new Deadline(clock, 20, controller.signal);
    let heard = false;
    deadline.onOver(() => (heard = true));
    deadline.clear();
    deadline.clear();
    expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
    await pause(60);
    expect([heard, deadline.isOver]).toEqual([false, false]);
  });
});

it('an AbortSignal may be shared by thousands of calls: Node warns of no leak, and it keeps no listener', () => {
  const { signal } = new AbortController();
  const forget = Array.from({ length: 1_000 }, () => onAbort(signal, () => {}));
  // No warning would be seen here: the tests run with --no-warnings.
  expect(getMaxListeners(signal)).toBe(Infinity);
  forget.forEach((one) => one());
  expect(getEventListeners(signal, 'abort')).toEqual([]);
});

describe('a time limit for a function of the host', () => {
  it('ends the wait for an answer', async () => {
    await expect(withTimeout(20, () => new Promise(() => undefined))).rejects.toThrow(TimeoutError);
    await expect(withTimeout(20, () => Promise.reject(new Error('its own')))).rejects.toThrow('its own');
  });

  it('accepts an answer that arrived while the event loop was busy', async () => {
    const { port1, port2 } = new MessageChannel();
    // Timers are the next that the event loop looks at.
    await new Promise(setImmediate);
    const answer = withTimeout(30, () => once(port1, 'message'));
    port2.postMessage('an answer');
    const until = performance.now() + 100;
    while (performance.now() < until) {
      // The time passes.
    }
    expect(await answer).toEqual(['an answer']);
    port1.close();
  });
});

it('an entry of a cache ends by our clock, to the millisecond, also one that was set at time 0', () => {
  const stopped = new StoppedClock();
  const cache = createCache<string>(stopped, { max: 10 });
  cache.set('a', 'first', { ttl: 100 });
  stopped.time = 100;
  expect(cache.get('a')).toBe('first');
  stopped.time = 101;
  expect(cache.get('a')).toBeUndefined();
});
