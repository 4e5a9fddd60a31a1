import { describe, expect, it } from '@jest/globals';
import { freezeJson, weighJson } from '../../lib/model/json-values.js';
import { collectGarbage } from '../support/garbage.js';

describe('records that several requests read', () => {
  it('are frozen to the last plain member', () => {
    const record = [{ booth: { halls: ['A'] }, since: new Date(0) }];
    freezeJson(record);
    expect(Object.isFrozen(record[0]?.booth.halls)).toBe(true);
    expect(Object.isFrozen(record[0]?.since)).toBe(false);
    expect(() => record[0]?.booth.halls.push('B')).toThrow(TypeError);
  });

  it('may refer to themselves', () => {
    const record: Record<string, unknown> = {};
    record.self = record;
    freezeJson(record);
    expect(Object.isFrozen(record)).toBe(true);
  });
});

/** Bytes of heap that a parsed text takes. */
function heapOf(text: string): { value: unknown; bytes: number } {
  collectGarbage();
  const before = process.memoryUsage().heapUsed;
  const value: unknown = JSON.parse(text);
  collectGarbage();
  return { value, bytes: process.memoryUsage().heapUsed - before };
}

const list = (count: number, text: (index: number) => string) =>
  `[${Array.from({ length: count }, (_, index) => text(index)).join(',')}]`;

describe('the estimated weight of JSON', () => {
  it.each<[string, string]>([
    ['empty objects', list(100_000, () => '{}')],
    ['empty arrays', list(100_000, () => '[]')],
    ['objects of unlike shapes', list(50_000, (index) => `{"k${index}":1}`)],
    ['objects with numbers as names', list(50_000, (index) => `{"${1_000 + index * 7}":1}`)],
    ['one object with many names', `{${list(50_000, (index) => `"k${index}":1`).slice(1, -1)}}`],
    ['long names', list(200, (index) => `{"${'n'.repeat(16_000)}${index}":1}`)],
    ['wide names', list(200, (index) => `{"${'ü€'.repeat(8_000)}${index}":1}`)],
    ['fractions', list(100_000, (index) => `${index}.5`)],
    ['short texts', list(100_000, (index) => `"${index}"`)],
    ['wide text', JSON.stringify(`${'x'.repeat(2_000_000)}€`)],
  ])('is about what %s take, or more', (_name, text) => {
    const { value, bytes } = heapOf(text);
    expect(weighJson(value)).toBeGreaterThan(0.75 * bytes);
  });

  it('is at most three times what ordinary records take', () => {
    const text = list(5_000, (id) =>
      JSON.stringify({
        id: `x${id}`,
        name: `Exhibitor ${id}`,
        booth: { hall: 'A', number: id },
        contactEmails: [`contact-${id}@example.com`],
        description: 'Machines for the whole world. '.repeat(10) + id,
      }),
    );
    const { value, bytes } = heapOf(text);
    const weight = weighJson(value);
    expect(weight).toBeGreaterThan(bytes);
    expect(weight).toBeLessThan(3 * bytes);
  });
});
