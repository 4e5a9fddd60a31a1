import { once } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { onAbort } from '../../lib/time/deadline.js';

/** The signal of a host. */
function create(): { signal: AbortSignal; abort: () => void } {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort() };
}

describe('an AbortSignal shared by many calls', () => {
  it('calls each of them back once', () => {
    const { signal, abort } = create();
    const calls: number[] = [];
    for (let call = 0; call < 3; call += 1) {
      onAbort(signal, () => calls.push(call));
    }
    abort();
    abort();
    expect(calls).toEqual([0, 1, 2]);
  });

  it('calls back at once where it is already aborted', () => {
    const { signal, abort } = create();
    abort();
    let called = false;
    onAbort(signal, () => (called = true));
    expect(called).toBe(true);
    expect(signal.aborted).toBe(true);
  });

  it('does not call removed listeners, and calls all others', () => {
    const { signal, abort } = create();
    const calls: string[] = [];
    const forget = onAbort(signal, () => calls.push('left'));
    onAbort(signal, () => calls.push('stayed'));
    forget();
    forget();
    abort();
    expect(calls).toEqual(['stayed']);
  });

  it('does not call a listener that an earlier one removed, and calls one that it added', () => {
    const { signal, abort } = create();
    const calls: string[] = [];
    onAbort(signal, () => {
      forget();
      onAbort(signal, () => calls.push('added'));
    });
    const forget = onAbort(signal, () => calls.push('removed'));
    abort();
    expect(calls).toEqual(['added']);
  });

  it('listens again after all listeners were removed', () => {
    const { signal, abort } = create();
    let called = 0;
    onAbort(signal, () => (called += 1))();
    onAbort(signal, () => (called += 1));
    abort();
    expect(called).toBe(1);
  });

  it('causes no leak warning', async () => {
    const warned = once(process, 'warning').then(([warning]) => warning as unknown);
    const { signal } = create();
    for (let call = 0; call < 200; call += 1) {
      onAbort(signal, () => {});
    }
    const quiet = new Promise((resolve) => setTimeout(resolve, 50, 'quiet'));
    await expect(Promise.race([warned, quiet])).resolves.toBe('quiet');
  });
});
