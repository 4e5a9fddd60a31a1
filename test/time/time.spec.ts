import { stat } from 'node:fs/promises';
import { getEventListeners } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { Clock } from '../../lib/time/clock.js';
import { Deadline, TimeoutError, withTimeout } from '../../lib/time/deadline.js';
import { createCache } from '../../lib/time/expiring-cache.js';
import { StoppedClock } from '../support/clock.js';
import { nativeRequire } from '../support/native-require.js';
import { pause } from '../support/wait.js';

const clock = new Clock();
/** That of a test is Jest's own, and hears no warning. */
const nodeProcess: NodeJS.Process = nativeRequire('node:process');

/** That a call ends by its time, its caller and the close of the module: test/transport/leaving.spec.ts. */
describe('a deadline', () => {
  it('reports the requests of shared work', async () => {
    const [shared, own] = [new Deadline(clock, 5_000), new Deadline(clock, 10)];
    shared.sent = 2;
    shared.tenant = 'acme';
    const late = own.race(new Promise<never>(() => {}), shared);
    await expect(late).rejects.toMatchObject({ tenant: 'acme', attempts: 2 });
    shared.clear();
  });

  it('that is over calls a listener that comes late at once', () => {
    const deadline = new Deadline(clock, 5_000);
    deadline.close();
    let calls = 0;
    deadline.onOver(() => (calls += 1));
    expect(calls).toBe(1);
  });

  it('that is done has released its timer and its listeners, for a thousand calls of one AbortSignal', async () => {
    const warnings: unknown[] = [];
    const collect = (warning: unknown): void => void warnings.push(warning);
    nodeProcess.on('warning', collect);
    const { signal } = new AbortController();
    const deadlines = Array.from({ length: 1_000 }, () => new Deadline(clock, 20, signal));
    deadlines.forEach((deadline) => deadline.onOver(() => collect('a listener')));
    deadlines.forEach((deadline) => deadline.clear());
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    await pause(60);
    nodeProcess.off('warning', collect);
    expect([warnings, deadlines.some(({ isOver }) => isOver)]).toEqual([[], false]);
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
