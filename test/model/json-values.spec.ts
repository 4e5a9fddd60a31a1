import { isDeepStrictEqual } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { isSameJson } from '../../lib/model/json-values.js';

/** Nested deeper than any stack, as a hostile reply may be. */
function nested(): unknown {
  return JSON.parse(`${'['.repeat(200_000)}${']'.repeat(200_000)}`);
}

describe('two JSON values', () => {
  it('are the same exactly where a deep comparison says so', () => {
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

  it('may be nested without end', () => {
    expect(isSameJson(nested(), nested())).toBe(true);
  });
});
