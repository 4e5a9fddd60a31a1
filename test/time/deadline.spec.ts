import { stat } from 'node:fs/promises';
import { getEventListeners } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { Clock } from '../../lib/time/clock.js';
import { Deadline } from '../../lib/time/deadline.js';
import { TimeoutError, withTimeout } from '../../lib/time/with-timeout.js';
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

  it('calls a listener that comes after the end, once and at once', () => {
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

  it('releases timer, listeners and the signal of the caller when it ends, once or more', async () => {
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

  it('accepts a signal shared by a thousand calls without a leak warning', () => {
    const warnings: unknown[] = [];
    const collect = (warning: unknown): void => void warnings.push(warning);
    process.on('warning', collect);
    const { signal } = new AbortController();
    const deadlines = Array.from({ length: 1_000 }, () => new Deadline(clock, 5_000, signal));
    for (const deadline of deadlines) {
      deadline.clear();
    }
    expect(getEventListeners(signal, 'abort')).toEqual([]);
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
    const answer = withTimeout(30, () => stat('.'));
    const until = performance.now() + 200;
    while (performance.now() < until) {
      // The answer arrives meanwhile, and the time passes.
    }
    expect((await answer).isDirectory()).toBe(true);
  });
});
