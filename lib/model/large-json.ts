/** Operations on JSON values of any size, which give way to other work of the event loop. None recurses. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { isPlain } from './json-values.js';

/** Values visited in one turn of the event loop: about a millisecond of work, unless one object has more members. */
const VALUES_PER_TURN = 4_000;

const NONE: readonly unknown[] = [];

/** Freezes every array and plain object in a value. Instances of classes (`Date`, `Map`) are left as they are. */
export async function freezeJson(root: unknown): Promise<void> {
  await visit(root, (value) => {
    if (!isPlain(value) || Object.isFrozen(value)) {
      return NONE;
    }
    return membersOf(Object.freeze(value));
  });
}

/**
 * Bytes of heap that parsed JSON takes, estimated. Small objects take far more than their text: `{}` has 2 bytes of text and
 * takes 64 of heap.
 */
export async function weighJson(root: unknown): Promise<number> {
  let weight = 0;
  await visit(root, (value) => {
    if (typeof value !== 'object' || value === null) {
      weight += weightOf(value);
      return NONE;
    }
    const members = membersOf(value);
    weight += Array.isArray(value) ? 48 + 8 * members.length : weightOfObject(members.length);
    return members;
  });
  return weight;
}

/** Visits a value and all values in it. `enter` answers the values in one value. */
async function visit(root: unknown, enter: (value: unknown) => readonly unknown[]): Promise<void> {
  const pending: unknown[] = [root];
  let visited = 0;
  while (pending.length > 0) {
    const members = enter(pending.pop());
    for (const inner of members) {
      pending.push(inner);
    }
    visited += 1 + members.length;
    if (visited > VALUES_PER_TURN) {
      visited = 0;
      await nextTurn();
    }
  }
}

function membersOf(value: object): readonly unknown[] {
  return Array.isArray(value) ? value : Object.values(value);
}

/**
 * Measured on Node 20. What is estimated for members is what they take in objects of unlike shapes; records of one shape
 * share their names and take less.
 */
function weightOfObject(members: number): number {
  return members === 0 ? 64 : 128 + 72 * members;
}

function weightOf(value: unknown): number {
  if (typeof value === 'string') {
    const isWide = /[\u0100-\uffff]/.test(value);
    return 24 + value.length * (isWide ? 2 : 1);
  }
  const isHeapNumber = typeof value === 'number' && !(Number.isInteger(value) && Math.abs(value) < 2 ** 30);
  return isHeapNumber ? 20 : 0;
}
