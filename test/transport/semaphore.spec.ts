import { describe, expect, it } from '@jest/globals';
import { Clock } from '../../lib/time/clock.js';
import { Deadline } from '../../lib/time/deadline.js';
import { Semaphore } from '../../lib/transport/limits/semaphore.js';

const clock = new Clock();
const microtasks = () => new Promise(setImmediate);

/** Callers that want a slot, numbered in order. */
async function crowd(semaphore: Semaphore, callers: number, limits: { slots: number; waiting: number }) {
  const entries: string[] = [];
  const deadlines = Array.from({ length: callers }, (_, caller) => {
    const deadline = new Deadline(clock, 60_000);
    void semaphore.enter(limits, deadline).then((entry) => entries.push(`${caller} ${entry}`));
    return deadline;
  });
  await microtasks();
  return { entries, deadlines, end: () => deadlines.forEach((deadline) => deadline.clear()) };
}

describe('a semaphore', () => {
  const limits = { slots: 2, waiting: 3 };

  it('gives slots to those who waited longest, and refuses who finds a full queue', async () => {
    const semaphore = new Semaphore();
    const { entries, end } = await crowd(semaphore, 6, limits);
    expect(entries).toEqual(['0 entered', '1 entered', '5 full']);
    semaphore.leave(limits);
    await microtasks();
    expect(entries.slice(3)).toEqual(['2 entered']);
    semaphore.leave(limits);
    semaphore.leave(limits);
    await microtasks();
    expect(entries.slice(4)).toEqual(['3 entered', '4 entered']);
    expect(semaphore.isIdle).toBe(false);
    semaphore.leave(limits);
    semaphore.leave(limits);
    expect(semaphore.isIdle).toBe(true);
    end();
  });

  it('gives no slot to a caller that left, and keeps the order', async () => {
    const semaphore = new Semaphore();
    const { entries, deadlines, end } = await crowd(semaphore, 5, limits);
    deadlines[2]?.close();
    await microtasks();
    expect(entries.slice(2)).toEqual(['2 over']);
    semaphore.leave(limits);
    semaphore.leave(limits);
    await microtasks();
    expect(entries.slice(3)).toEqual(['3 entered', '4 entered']);
    end();
  });

  it('keeps those who wait when a call comes that is over already', async () => {
    const semaphore = new Semaphore();
    const { entries, end } = await crowd(semaphore, 3, limits);
    const left = new Deadline(clock, 5_000, AbortSignal.abort());
    await expect(semaphore.enter(limits, left)).resolves.toBe('over');
    semaphore.leave(limits);
    await microtasks();
    expect(entries.at(-1)).toBe('2 entered');
    end();
  });

  it('follows a limit that changes', async () => {
    const semaphore = new Semaphore();
    const { entries, end } = await crowd(semaphore, 5, limits);
    semaphore.leave({ slots: 1, waiting: 3 });
    await microtasks();
    expect(entries).toHaveLength(2);
    semaphore.leave({ slots: 4, waiting: 3 });
    await microtasks();
    expect(entries.slice(2)).toEqual(['2 entered', '3 entered', '4 entered']);
    end();
  });
});
