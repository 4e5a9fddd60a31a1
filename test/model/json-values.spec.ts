import { expect, it } from '@jest/globals';
import { freezeJson } from '../../lib/model/json-values.js';

it('a value is frozen as a whole, also below what was frozen before, and where it refers to itself', () => {
  const inner = { tags: ['a'], hall: { number: 1 } };
  const record: Record<string, unknown> = { inner: Object.freeze([Object.freeze({ inner })]) };
  record['self'] = record;
  freezeJson(Object.freeze(record));
  for (const one of [record, inner, inner.tags, inner.hall]) {
    expect(Object.isFrozen(one)).toBe(true);
  }
});
