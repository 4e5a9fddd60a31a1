import { isDeepStrictEqual } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { isSameJson } from '../../lib/model/json-values.js';

/** Nested deeper than the call stack, as a malicious reply may be. */
function nested(): unknown {
  return JSON.parse(`${'['.repeat(200_000)}${']'.repeat(200_000)}`);
}

describe('two JSON values', () => {
  it('are equal exactly where a deep comparison finds them equal', () => {
    const value = fc.jsonValue({ maxDepth: 3 });
    fc.assert(
      fc.property(
        fc.oneof(
          fc.tuple(value, value),
          value.map((one) => [one, one] as const),
        ),
        ([one, other]) => {
          const [a, b]: unknown[] = JSON.parse(JSON.stringify([one, other]));
          expect(isSameJson(a, b)).toBe(isDeepStrictEqual(a, b));
        },
      ),
    );
  });

  it.each([
    [{ a: 1, b: [2] }, { b: [2], a: 1 }, true],
    [{ a: 1 }, { a: 1, b: 1 }, false],
    [{ a: 1 }, { b: 1 }, false],
    [{ a: [] }, { a: {} }, false],
    [{ a: null }, { a: {} }, false],
    [[1, 2], [2, 1], false],
  ])('%j and %j: %p', (one, other, same) => {
    expect(isSameJson(one, other)).toBe(same);
    expect(isSameJson(other, one)).toBe(same);
  });

  it.each([
    [{ since: new Date(0), tags: new Set(['a']) }, { since: new Date(0), tags: new Set(['a']) }, true],
    [{ since: new Date(0) }, { since: new Date(1) }, false],
    [{ tags: new Set(['a']) }, { tags: new Set(['b']) }, false],
    [{ a: undefined }, {}, false],
    [{ a: Number.NaN }, { a: Number.NaN }, true],
  ])('may hold what a schema creates: %p and %p', (one, other, same) => {
    expect(isSameJson(one, other)).toBe(same);
    expect(isSameJson(other, one)).toBe(same);
    expect(isSameJson(one, other)).toBe(isDeepStrictEqual(one, other));
  });

  it('may refer to themselves', () => {
    const loop = (value: number, length: number): object => {
      const records: Record<string, unknown>[] = Array.from({ length }, () => ({ value }));
      for (const [index, record] of records.entries()) {
        record.next = records[(index + 1) % length];
      }
      return records[0] ?? {};
    };
    expect(isSameJson(loop(1, 1), loop(1, 1))).toBe(true);
    expect(isSameJson(loop(1, 2), loop(1, 3))).toBe(true);
    expect(isSameJson(loop(1, 2), loop(2, 2))).toBe(false);
  });

  it('may be nested to any depth', () => {
    expect(isSameJson(nested(), nested())).toBe(true);
  });
});
