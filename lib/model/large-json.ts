/** Operations on JSON values. Those of large ones give way to other work of the event loop. None recurses. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { isPlain } from './json-values.js';

/** Values visited in one turn of the event loop: about a millisecond of work. */
const VALUES_PER_TURN = 2_000;

const NONE: readonly unknown[] = [];

/** Freezes every array and plain object in a value. Instances of classes (`Date`, `Map`) are left as they are. */
export async function freezeJson(root: unknown): Promise<void> {
  await inTurns(visit(root, freeze));
}

/** As {@link freezeJson}, at once: for a value of some thousand bytes. */
export function freezeSmallJson(root: unknown): void {
  atOnce(visit(root, freeze));
}

function freeze(value: unknown): readonly unknown[] {
  return isPlain(value) && !Object.isFrozen(value) ? membersOf(Object.freeze(value)) : NONE;
}

/**
 * Bytes of heap that parsed JSON takes, estimated. Small objects take far more than their text: `{}` has 2 bytes of text and
 * takes 64 of heap.
 */
export async function weighJson(root: unknown): Promise<number> {
  const scale = new Scale();
  await inTurns(visit(root, scale.add));
  return scale.weight;
}

/** As {@link weighJson}, at once: for a value of some thousand bytes. */
export function weighSmallJson(root: unknown): number {
  const scale = new Scale();
  atOnce(visit(root, scale.add));
  return scale.weight;
}

class Scale {
  weight = 0;

  readonly add = (value: unknown): readonly unknown[] => {
    if (typeof value !== 'object' || value === null) {
      this.weight += weightOf(value);
      return NONE;
    }
    const members = membersOf(value);
    this.weight += Array.isArray(value) ? 48 + 8 * members.length : weightOfObject(members.length);
    return members;
  };
}

async function inTurns(visits: Generator): Promise<void> {
  while (visits.next().done !== true) {
    await nextTurn();
  }
}

function atOnce(visits: Generator): void {
  while (visits.next().done !== true) {
    continue;
  }
}

/** Visits a value and all values in it; stops where it is time for another turn. `enter` answers the values in one value. */
function* visit(root: unknown, enter: (value: unknown) => readonly unknown[]): Generator<undefined, void> {
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
      yield;
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
