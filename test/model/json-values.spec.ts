import { describe, expect, it } from '@jest/globals';
import { freezeJson } from '../../lib/model/json-values.js';

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
