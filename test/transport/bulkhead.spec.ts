import { describe, expect, it } from '@jest/globals';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Bulkhead } from '../../lib/transport/limits/bulkhead.js';
import { Clock } from '../../lib/time/clock.js';
import { Deadline } from '../../lib/time/deadline.js';

const clock = new Clock();

/** Starts a number of callers; returns the numbers of those that got a slot, in order. */
function crowd(
  bulkhead: Bulkhead,
  callers: number,
  slots: number,
): { inside: number[]; deadlines: Deadline[] } {
  const inside: number[] = [];
  const deadlines = Array.from({ length: callers }, (_, caller) => {
    const deadline = Deadline.start(clock, 60_000);
    if (bulkhead.tryEnter(slots)) {
      inside.push(caller);
    } else {
      void bulkhead.wait(deadline).then((entered) => entered && inside.push(caller));
    }
    return deadline;
  });
  return { inside, deadlines };
}

const end = (deadlines: Deadline[]): void => deadlines.forEach((deadline) => deadline.end());

describe('a bulkhead', () => {
  it('starts four at once and a few in each turn after, in order, while there are slots', async () => {
    const bulkhead = new Bulkhead();
    const { inside, deadlines } = crowd(bulkhead, 40, 20);
    expect(inside).toHaveLength(4);
    for (let turn = 0; turn < 20; turn += 1) {
      const before = inside.length;
      await nextTurn();
      expect(inside.length - before).toBeLessThanOrEqual(2);
    }
    expect(inside).toEqual(Array.from({ length: 20 }, (_, caller) => caller));
    bulkhead.leave(20);
    await nextTurn();
    await nextTurn();
    expect(inside.at(-1)).toBe(20);
    end(deadlines);
  });

  it('gives the slots of answered requests to waiting callers in the same turn, others later', async () => {
    const bulkhead = new Bulkhead();
    const { inside, deadlines } = crowd(bulkhead, 40, 20);
    for (let turn = 0; turn < 20; turn += 1) {
      await nextTurn();
    }
    expect(inside).toHaveLength(20);
    for (let answered = 0; answered < 10; answered += 1) {
      bulkhead.handOver(20);
    }
    await Promise.resolve();
    expect(inside).toHaveLength(30);
    await nextTurn();
    for (let failed = 0; failed < 10; failed += 1) {
      bulkhead.leave(20);
    }
    await Promise.resolve();
    expect(inside.length).toBeLessThanOrEqual(34);
    end(deadlines);
  });

  it('gives no slot to a caller that left, and keeps the order', async () => {
    const bulkhead = new Bulkhead();
    const { inside, deadlines } = crowd(bulkhead, 4, 1);
    deadlines[1]?.close();
    await nextTurn();
    expect(bulkhead.tryEnter(1)).toBe(false);
    bulkhead.leave(1);
    await nextTurn();
    expect(inside).toEqual([0, 2]);
    bulkhead.leave(1);
    bulkhead.leave(1);
    await nextTurn();
    expect(inside).toEqual([0, 2, 3]);
    expect(bulkhead.tryEnter(1)).toBe(true);
    end(deadlines);
  });

  it('is full when sixteen wait for each slot', () => {
    const bulkhead = new Bulkhead();
    const { deadlines } = crowd(bulkhead, 33, 2);
    expect(bulkhead.isFull(2)).toBe(false);
    const { deadlines: last } = crowd(bulkhead, 1, 2);
    expect(bulkhead.isFull(2)).toBe(true);
    end([...deadlines, ...last]);
  });
});
