import { getEventListeners, getMaxListeners, once } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { Clock, TimeoutError, withTimeout } from '../../lib/call/clock.js';
import { Call, onAbort } from '../../lib/call/call.js';
import { createCache } from '../../lib/call/expiring-cache.js';
import { StoppedClock } from '../support/clock.js';
import { pause } from '../support/wait.js';

/** How calls end by their deadlines and signals: test/exhibitors/leaving.spec.ts, test/http/leaving.spec.ts. */
describe('a call', () => {
  const clock = new Clock();

  it.each<[end: string, code: string, isTimeUp: boolean]>([
    ['its time', 'deadline_exceeded', true],
    ['the signal of its caller', 'aborted', false],
    ['the close of the module', 'service_unavailable', false],
  ])('ends by %s, whatever ends it later, and tells its listeners once', async (end, code, isTimeUp) => {
    const caller = new AbortController();
    const call = new Call(clock, end === 'its time' ? 20 : 5_000, caller.signal);
    let heard = 0;
    call.whenOver(() => (heard += 1));
    if (end.startsWith('the signal')) {
      caller.abort();
    } else if (end.startsWith('the close')) {
      call.close();
    }
    await expect(call.race(new Promise(() => {}))).rejects.toMatchObject({ code });
    caller.abort();
    call.close();
    call.whenOver(() => (heard += 1));
    expect([call.failure().code, call.isTimeUp, call.remaining()]).toEqual([code, isTimeUp, 0]);
    expect(heard).toBe(2);
  });

  it('ends its parts, for the same reason; a part that is done, or over first, leaves it alone', async () => {
    const call = new Call(clock, 5_000);
    const [open, done, short] = [call.part(Infinity), call.part(Infinity), call.part(10)];
    done.clear();
    await expect(short.race(new Promise(() => {}))).rejects.toMatchObject({ code: 'deadline_exceeded' });
    expect([call.isOver, call.listenerCount('abort')]).toEqual([false, 1]);
    call.close();
    expect([open, done].map((part) => part.isOver)).toEqual([true, false]);
    expect(open.failure().code).toBe('service_unavailable');
    expect(call.part(Infinity).failure().code).toBe('service_unavailable');
  });

  it('releases timer, listeners and the signal of the caller when it is done, once or more', async () => {
    const controller = new AbortController();
    const call = new Call(clock, 20, controller.signal);
    let heard = false;
    call.whenOver(() => (heard = true));
    call.clear();
    call.clear();
    expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
    await pause(60);
    expect([heard, call.isOver]).toEqual([false, false]);
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

it('an AbortSignal may be that of a polyfill', () => {
  const listeners = new Set<unknown>();
  const polyfill = {
    aborted: false,
    addEventListener: (_: string, listener: unknown) => listeners.add(listener),
    removeEventListener: (_: string, listener: unknown) => listeners.delete(listener),
  };
  const call = new Call(new Clock(), 5_000, polyfill as unknown as AbortSignal);
  expect(listeners.size).toBe(1);
  call.clear();
  expect(listeners.size).toBe(0);
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

  it('holds no process, also where it fires late', async () => {
    const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
    const before = timers();
    const late = withTimeout(30, () => new Promise(() => undefined));
    expect(timers()).toBe(before);
    const until = performance.now() + 100;
    while (performance.now() < until) {
      // The time passes.
    }
    for (let turn = 0; turn < 4; turn += 1) {
      await new Promise(setImmediate);
    }
    expect(timers()).toBe(before);
    await expect(late).rejects.toThrow(TimeoutError);
  });

  it('that fires late ends the wait within half a second also where the event loop is never idle', async () => {
    const began = performance.now();
    const late = withTimeout(30, () => new Promise(() => undefined));
    while (performance.now() < began + 100) {
      // The time passes.
    }
    let turn: NodeJS.Immediate;
    const spin = (): void => void (turn = setImmediate(spin));
    spin();
    await expect(late.finally(() => clearImmediate(turn))).rejects.toThrow(TimeoutError);
    const took = performance.now() - began;
    expect([took > 550, took < 2_000]).toEqual([true, true]);
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
