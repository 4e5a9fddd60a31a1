import { describe, expect, it } from '@jest/globals';
import { freezeJson, weighJson } from '../../lib/model/large-json.js';
import { collectGarbage } from '../support/garbage.js';

/** Nested deeper than any stack, as a hostile reply may be. */
function nested(): unknown {
  return JSON.parse(`${'['.repeat(200_000)}${']'.repeat(200_000)}`);
}

describe('records that several requests read', () => {
  it('are frozen to the last plain member', async () => {
    const record = [{ booth: { halls: ['A'] }, since: new Date(0) }];
    await freezeJson(record);
    expect(Object.isFrozen(record[0]?.booth.halls)).toBe(true);
    expect(Object.isFrozen(record[0]?.since)).toBe(false);
    expect(() => record[0]?.booth.halls.push('B')).toThrow(TypeError);
  });

  it('may refer to themselves, and be nested without end', async () => {
    const record: Record<string, unknown> = {};
    record.self = record;
    await freezeJson(record);
    expect(Object.isFrozen(record)).toBe(true);
    const deep = nested();
    await freezeJson(deep);
    expect(Object.isFrozen(deep)).toBe(true);
    expect(await weighJson(deep)).toBeGreaterThan(200_000 * 48);
  });

  it('give way to other work while they are weighed and frozen', async () => {
    const records: unknown = JSON.parse(`[${Array(160_000).fill('{}').join(',')}]`);
    let turns = 0;
    const timer = setInterval(() => (turns += 1), 0);
    await weighJson(records);
    await freezeJson(records);
    clearInterval(timer);
    expect(turns).toBeGreaterThan(5);
    expect(Object.isFrozen(records)).toBe(true);
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
    ['fractions', list(100_000, (index) => `${index}.5`)],
    ['short texts', list(100_000, (index) => `"${index}"`)],
    ['wide text', JSON.stringify(`${'x'.repeat(2_000_000)}€`)],
  ])('is about what %s take, or more', async (_name, text) => {
    const { value, bytes } = heapOf(text);
    expect(await weighJson(value)).toBeGreaterThan(0.75 * bytes);
  });

  it('is at most three times what ordinary records take', async () => {
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
    const weight = await weighJson(value);
    expect(weight).toBeGreaterThan(bytes);
    expect(weight).toBeLessThan(3 * bytes);
  });
});
