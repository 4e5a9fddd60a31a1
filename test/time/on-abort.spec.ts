import { once } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { onAbort } from '../../lib/time/on-abort.js';

describe('a signal that many calls share', () => {
  it('calls each of them back once', () => {
    const controller = new AbortController();
    const calls: number[] = [];
    for (let call = 0; call < 3; call += 1) {
      onAbort(controller.signal, () => calls.push(call));
    }
    controller.abort();
    expect(calls).toEqual([0, 1, 2]);
  });

  it('calls back at once where it is aborted already', () => {
    let called = false;
    onAbort(AbortSignal.abort(), () => (called = true));
    expect(called).toBe(true);
  });

  it('forgets who stopped listening, and only them', () => {
    const controller = new AbortController();
    const calls: string[] = [];
    const forget = onAbort(controller.signal, () => calls.push('left'));
    onAbort(controller.signal, () => calls.push('stayed'));
    forget();
    forget();
    controller.abort();
    expect(calls).toEqual(['stayed']);
  });

  it('listens anew after everybody left', () => {
    const controller = new AbortController();
    let called = 0;
    onAbort(controller.signal, () => (called += 1))();
    onAbort(controller.signal, () => (called += 1));
    controller.abort();
    expect(called).toBe(1);
  });

  it('raises no leak warning', async () => {
    const warned = once(process, 'warning').then(([warning]) => warning as unknown);
    const { signal } = new AbortController();
    for (let call = 0; call < 200; call += 1) {
      onAbort(signal, () => {});
    }
    const quiet = new Promise((resolve) => setTimeout(resolve, 50, 'quiet'));
    await expect(Promise.race([warned, quiet])).resolves.toBe('quiet');
  });
});
