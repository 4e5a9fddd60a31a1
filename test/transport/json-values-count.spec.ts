import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { hasMoreValuesThan } from '../../lib/transport/wire/json-values-count.js';

/** Counts what separates values, without the texts. */
const structureOf = (text: string) => text.replace(/"(?:[^"\\]|\\.)*"/g, '').match(/[,:[{]/g)?.length ?? 0;

describe('the number of values of a JSON text', () => {
  it('is that of its structure, whatever its texts contain', () => {
    fc.assert(
      fc.property(fc.json({ stringUnit: 'binary' }), fc.nat(40), (text, most) => {
        const isMore = structureOf(text) > most;
        expect(hasMoreValuesThan(Buffer.from(text), most)).toBe(isMore);
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
    expect(hasMoreValuesThan(Buffer.from(text), 10)).toBe(false);
    expect(performance.now() - began).toBeLessThan(1_000);
  });

  it.each([
    ['empty objects', '[' + '{},'.repeat(1_000_000)],
    ['nested arrays', '['.repeat(1_000_000)],
    ['texts without separators', '""'.repeat(1_000_000)],
  ])('is too large with %s', (_name, text) => {
    expect(hasMoreValuesThan(Buffer.from(text), 100_000)).toBe(true);
  });
});
