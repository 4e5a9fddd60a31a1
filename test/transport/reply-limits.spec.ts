import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { hasTooManyValues, isNestedTooDeep } from '../../lib/transport/wire/reply-limits.js';

/** Counts what separates values, without the texts. */
const structureOf = (text: string) => text.replace(/"(?:[^"\\]|\\.)*"/g, '').match(/[,:[{]/g)?.length ?? 0;

describe('the number of values of a JSON text', () => {
  it('is that of its structure, whatever its texts contain', () => {
    fc.assert(
      fc.property(fc.json({ stringUnit: 'binary' }), fc.nat(40), (text, most) => {
        expect(hasTooManyValues(Buffer.from(text), most)).toBe(structureOf(text) > most);
      }),
    );
  });

  it.each([
    ['escaped quotes', JSON.stringify(['"'.repeat(500_000)])],
    ['backslashes', JSON.stringify(['\\'.repeat(500_000)])],
    ['separators in a text', JSON.stringify([',:[{'.repeat(500_000)])],
    ['a text without an end', `["${'\\"'.repeat(500_000)}`],
  ])('is small, and found in linear time, with %s', (_name, text) => {
    const began = performance.now();
    expect(hasTooManyValues(Buffer.from(text), 10)).toBe(false);
    expect(performance.now() - began).toBeLessThan(1_000);
  });

  it.each([
    ['empty objects', '[' + '{},'.repeat(1_000_000)],
    ['arrays', '[' + '[],'.repeat(1_000_000)],
    ['texts without separators', '""'.repeat(1_000_000)],
  ])('is too large with %s', (_name, text) => {
    expect(hasTooManyValues(Buffer.from(text), 100_000)).toBe(true);
  });
});

describe('the depth of a JSON text', () => {
  const nested = (levels: number, open: string, close: string): unknown =>
    JSON.parse(`${open.repeat(levels)}1${close.repeat(levels)}`);

  it.each([
    ['arrays', '[', ']'],
    ['objects', '{"a":', '}'],
    ['both', '[{"a":', '}]'],
  ])('is at most 100: %s', (_name, open, close) => {
    const levels = 100 / (open.match(/[[{]/g)?.length ?? 1);
    expect(isNestedTooDeep(nested(levels, open, close))).toBe(false);
    expect(isNestedTooDeep(nested(levels + 1, open, close))).toBe(true);
    expect(isNestedTooDeep(nested(1_000_000, open, close))).toBe(true);
  });

  it('is not that of its texts, nor the number of its lists', () => {
    const lists = Array.from({ length: 500 }, () => ['['.repeat(500), '"[{']);
    expect(isNestedTooDeep(lists)).toBe(false);
  });
});
