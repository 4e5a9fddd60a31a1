import { stat } from 'node:fs/promises';
import { getEventListeners } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { Clock } from '../../lib/time/clock.js';
import { Deadline, Deadlines, onAbort, TimeoutError, withTimeout } from '../../lib/time/deadline.js';
import { createCache } from '../../lib/time/expiring-cache.js';
import { StoppedClock } from '../support/clock.js';
import { pause } from '../support/wait.js';

const clock = new Clock();
const never = new Promise<never>(() => {});

describe('a deadline', () => {
  it('fails with deadline_exceeded when its time is up, and calls its listeners', async () => {
    const deadline = new Deadline(clock, 20);
    let calls = 0;
    deadline.onOver(() => (calls += 1));
    await expect(deadline.race(never)).rejects.toMatchObject({ code: 'deadline_exceeded' });
    expect(calls).toBe(1);
    expect(deadline.remaining()).toBe(0);
    expect([deadline.isOver, deadline.isTimeUp]).toEqual([true, true]);
  });

  it('fails with aborted when the caller aborts, before or while it runs', async () => {
    const controller = new AbortController();
    const deadline = new Deadline(clock, 5_000, controller.signal);
    setTimeout(() => controller.abort(), 10);
    await expect(deadline.race(never)).rejects.toMatchObject({ code: 'aborted' });

    const late = new Deadline(clock, 5_000, AbortSignal.abort());
    expect(late.failure()).toMatchObject({ code: 'aborted' });
    expect([late.isOver, late.isTimeUp]).toEqual([true, false]);
  });

  it('keeps the first reason', () => {
    const controller = new AbortController();
    const deadline = new Deadline(clock, 5_000, controller.signal);
    deadline.close();
    controller.abort();
    expect(deadline.failure()).toMatchObject({ code: 'service_unavailable' });
  });

  it('returns the result of shared work in time', async () => {
    const deadline = new Deadline(clock, 5_000);
    await expect(deadline.race(Promise.resolve('done'))).resolves.toBe('done');
    await expect(deadline.race(Promise.reject(new Error('failed')))).rejects.toThrow('failed');
    deadline.clear();
  });

  it('calls a listener that comes after the end at once, and none after it is done', () => {
    const deadline = new Deadline(clock, 5_000);
    deadline.close();
    let calls = 0;
    deadline.onOver(() => (calls += 1))();
    expect(calls).toBe(1);

    const done = new Deadline(clock, 5_000);
    done.clear();
    done.onOver(() => (calls += 1));
    expect(calls).toBe(1);
  });

  it('reports the requests of shared work', async () => {
    const [shared, own] = [new Deadline(clock, 5_000), new Deadline(clock, 10)];
    shared.sent = 2;
    shared.tenant = 'acme';
    await expect(own.race(never, shared)).rejects.toMatchObject({ tenant: 'acme', attempts: 2 });
    shared.clear();
  });

  it('ends a sleep when its time is over', async () => {
    const deadline = new Deadline(clock, 20);
    const began = performance.now();
    await deadline.sleep(10_000);
    expect(performance.now() - began).toBeLessThan(5_000);
    await deadline.sleep(10_000);
  });

  it('releases timer, listeners and the signal of the caller when it is done, once or more', async () => {
    const controller = new AbortController();
    const deadline = new Deadline(clock, 20, controller.signal);
    let heard = false;
    deadline.onOver(() => {
      heard = true;
    });
    deadline.clear();
    deadline.clear();
    expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
    await pause(60);
    expect([heard, deadline.isOver]).toEqual([false, false]);
  });
});

describe('the deadlines of a module', () => {
  it('all end when the module closes, and so does one that starts later', () => {
    const deadlines = new Deadlines(clock);
    const running = [deadlines.start(5_000), deadlines.start(5_000, new AbortController().signal)];
    const done = deadlines.start(5_000);
    done.clear();
    const aborted = deadlines.start(5_000, AbortSignal.abort());
    deadlines.close();
    for (const deadline of [...running, deadlines.start(5_000)]) {
      expect(deadline.failure()).toMatchObject({
        code: 'service_unavailable',
        message: 'the module was closed',
      });
      expect(deadline.isOver).toBe(true);
    }
    expect(done.isOver).toBe(false);
    expect(aborted.failure()).toMatchObject({ code: 'aborted' });
  });
});

describe('an AbortSignal shared by many calls', () => {
  it('calls each listener back once, at once where it is aborted already; also one that a listener adds, none that was removed', () => {
    const controller = new AbortController();
    const calls: string[] = [];
    onAbort(controller.signal, () => {
      forget();
      onAbort(controller.signal, () => calls.push('added'));
    });
    const forget = onAbort(controller.signal, () => calls.push('removed'));
    onAbort(controller.signal, () => calls.push('stayed'));
    controller.abort();
    controller.abort();
    onAbort(controller.signal, () => calls.push('late'));
    expect(calls.toSorted()).toEqual(['added', 'late', 'stayed']);
  });

  it('causes no leak warning, and is free of listeners when a thousand calls are done', async () => {
    const warnings: unknown[] = [];
    const collect = (warning: unknown): void => void warnings.push(warning);
    process.on('warning', collect);
    const { signal } = new AbortController();
    const deadlines = Array.from({ length: 1_000 }, () => new Deadline(clock, 5_000, signal));
    deadlines.forEach((deadline) => deadline.clear());
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    await pause(20);
    process.off('warning', collect);
    expect(warnings).toEqual([]);
  });
});

describe('a time limit for a function of the host', () => {
  it('ends the wait for an answer', async () => {
    await expect(withTimeout(20, () => new Promise(() => undefined))).rejects.toThrow(TimeoutError);
    await expect(withTimeout(20, () => Promise.reject(new Error('its own')))).rejects.toThrow('its own');
  });

  it('accepts an answer that arrived while the event loop was busy', async () => {
    // Timers are the next that the event loop looks at.
    await new Promise(setImmediate);
    const answer = withTimeout(30, () => stat('.'));
    const until = performance.now() + 100;
    while (performance.now() < until) {
      // The answer arrives meanwhile, and the time passes.
    }
    expect((await answer).isDirectory()).toBe(true);
  });
});

describe('a cache', () => {
  it('ends an entry by our clock, to the millisecond, also one that was set at time 0', () => {
    const stopped = new StoppedClock();
    const cache = createCache<string>(stopped, { max: 10 });
    cache.set('a', 'first', { ttl: 100 });
    stopped.time = 100;
    expect(cache.get('a')).toBe('first');
    stopped.time = 101;
    expect(cache.get('a')).toBeUndefined();
    cache.set('a', 'second', { ttl: 100 });
    stopped.time = 202;
    expect(cache.get('a')).toBeUndefined();
  });

  it('keeps an entry without a ttl until others push it out, the least recently used first', () => {
    const stopped = new StoppedClock();
    const cache = createCache<number>(stopped, { max: 2 });
    cache.set('a', 1).set('b', 2);
    stopped.time = 1e12;
    cache.get('a');
    cache.set('c', 3);
    expect([cache.get('a'), cache.get('b'), cache.get('c')]).toEqual([1, undefined, 3]);
  });

  it('is bounded by size where entries have one; one that is larger than the cache is not kept', () => {
    const cache = createCache<number>(new StoppedClock(), { maxSize: 10 });
    cache.set('a', 1, { size: 6 }).set('b', 2, { size: 5 }).set('c', 3, { size: 11 });
    expect([cache.get('a'), cache.get('b'), cache.get('c')]).toEqual([undefined, 2, undefined]);
  });
});
