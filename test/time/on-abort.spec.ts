import { once } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { onAbort } from '../../lib/time/on-abort.js';

describe('a signal shared by many calls', () => {
  it('calls each of them back once', () => {
    const controller = new AbortController();
    const calls: number[] = [];
    for (let call = 0; call < 3; call += 1) {
      onAbort(controller.signal, () => calls.push(call));
    }
    controller.abort();
    expect(calls).toEqual([0, 1, 2]);
  });

  it('calls back at once where it is already aborted', () => {
    let called = false;
    onAbort(AbortSignal.abort(), () => (called = true));
    expect(called).toBe(true);
  });

  it('does not call removed listeners, and calls all others', () => {
    const controller = new AbortController();
    const calls: string[] = [];
    const forget = onAbort(controller.signal, () => calls.push('left'));
    onAbort(controller.signal, () => calls.push('stayed'));
    forget();
    forget();
    controller.abort();
    expect(calls).toEqual(['stayed']);
  });

  it('listens again after all listeners were removed', () => {
    const controller = new AbortController();
    let called = 0;
    onAbort(controller.signal, () => (called += 1))();
    onAbort(controller.signal, () => (called += 1));
    controller.abort();
    expect(called).toBe(1);
  });

  it('causes no leak warning', async () => {
    const warned = once(process, 'warning').then(([warning]) => warning as unknown);
    const { signal } = new AbortController();
    for (let call = 0; call < 200; call += 1) {
      onAbort(signal, () => {});
    }
    const quiet = new Promise((resolve) => setTimeout(resolve, 50, 'quiet'));
    await expect(Promise.race([warned, quiet])).resolves.toBe('quiet');
  });
});
