/** Operations on JSON values of any size, which give way to other work of the event loop. None recurses. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { isPlain } from './json-values.js';

/** Values visited in one turn of the event loop: some milliseconds of work. */
const VALUES_PER_TURN = 10_000;

/** Freezes every array and plain object in a value. Instances of classes (`Date`, `Map`) are left as they are. */
export async function freezeJson(root: unknown): Promise<void> {
  await visit(root, (value) => {
    if (!isPlain(value) || Object.isFrozen(value)) {
      return false;
    }
    Object.freeze(value);
    return true;
  });
}

/**
 * Bytes of heap that parsed JSON takes, estimated. Small objects take far more than their text: `{}` has 2 bytes of text and
 * takes 64 of heap.
 */
export async function weighJson(root: unknown): Promise<number> {
  let weight = 0;
  await visit(root, (value) => {
    weight += weightOf(value);
    return isPlain(value);
  });
  return weight;
}

/** Visits a value and the values in those that `enter` answers true for. */
async function visit(root: unknown, enter: (value: unknown) => boolean): Promise<void> {
  const pending: unknown[] = [root];
  for (let visited = 1; pending.length > 0; visited += 1) {
    const value = pending.pop();
    if (enter(value) && isPlain(value)) {
      for (const inner of Object.values(value)) {
        pending.push(inner);
      }
    }
    if (visited % VALUES_PER_TURN === 0) {
      await nextTurn();
    }
  }
}

/**
 * Measured on Node 20 and 24. What is estimated for members is what they take in objects of unlike shapes; records of one
 * shape share their names and take about half.
 */
function weightOf(value: unknown): number {
  if (typeof value === 'string') {
    const isWide = /[\u0100-\uffff]/.test(value);
    return 24 + value.length * (isWide ? 2 : 1);
  }
  if (typeof value === 'number') {
    return Number.isInteger(value) && Math.abs(value) < 2 ** 30 ? 0 : 20;
  }
  if (Array.isArray(value)) {
    return 48 + 8 * value.length;
  }
  if (!isPlain(value)) {
    return 0;
  }
  const members = Object.keys(value).length;
  return members === 0 ? 64 : 128 + 72 * members;
}
