import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { compareExhibitors } from '../../lib/exhibitors/compare-exhibitors.js';
import { exhibitorIdOf } from '../../lib/exhibitors/exhibitor-id.js';

describe('compareExhibitors', () => {
  it('reports what was added, removed, changed and unchanged', () => {
    const before = [
      { id: 'a', hall: 1 },
      { id: 'b', hall: 2 },
      { id: 'c', hall: 3 },
    ];
    const after = [
      { id: 'd', hall: 4 },
      { id: 'c', hall: 3 },
      { id: 'b', hall: 9 },
    ];
    expect(compareExhibitors(before, after)).toEqual({
      added: [{ id: 'd', hall: 4 }],
      removed: [{ id: 'a', hall: 1 }],
      changed: [{ before: { id: 'b', hall: 2 }, after: { id: 'b', hall: 9 } }],
      unchanged: [{ id: 'c', hall: 3 }],
    });
  });

  it.each<[string, (version: number) => object]>([
    ['deeply', (version) => ({ booth: { hall: 1, rows: [version] } })],
    ['dates, which a schema creates', (version) => ({ since: new Date(version) })],
  ])('compares %s, and ignores the order of members', (_what, make) => {
    const [before, equal, other] = [make(1), make(1), make(2)];
    expect(compareExhibitors([{ id: 'a', ...before }], [{ ...equal, id: 'a' }]).unchanged).toHaveLength(1);
    expect(compareExhibitors([{ id: 'a', ...before }], [{ ...other, id: 'a' }]).changed).toHaveLength(1);
  });

  it('takes a function that returns the id, and refuses exhibitors without one', () => {
    const changes = compareExhibitors([{ ref: 1, n: 1 }], [{ ref: 1, n: 2 }], ({ ref }) => `ref-${ref}`);
    expect(changes.changed).toEqual([{ before: { ref: 1, n: 1 }, after: { ref: 1, n: 2 } }]);
    const refusal = expect.objectContaining({ code: 'invalid_argument' });
    expect(() => compareExhibitors([{ name: 'x' }], [])).toThrow(refusal);
  });

  it('counts every exhibitor exactly once, also of equal ids, and does not change its arguments', () => {
    const exhibitors = fc.array(fc.record({ id: fc.integer({ min: 0, max: 9 }), v: fc.boolean() }));
    fc.assert(
      fc.property(exhibitors, exhibitors, (before, after) => {
        const copies = structuredClone([before, after]);
        const { added, removed, changed, unchanged } = compareExhibitors(before, after);
        const stayed = changed.length + unchanged.length;
        expect([added.length + stayed, removed.length + stayed]).toEqual([after.length, before.length]);
        expect([before, after]).toEqual(copies);
      }),
    );
  });
});

describe('the id of an exhibitor', () => {
  const longest = 'ü'.repeat(128);
  const exhibitorId = (record: object) => String(Reflect.get(record, 'booth'));
  // Beyond 256 bytes, which are stored in a cookie, nothing can be selected.
  it.each<[unknown, id: string | undefined, options: object]>([
    [{ id: 'a', exhibitorId: 'b' }, 'a', {}],
    [{ exhibitorId: 'b' }, 'b', {}],
    [{ id: '', exhibitorId: 'b' }, 'b', {}],
    [{ id: 7 }, '7', {}],
    [{ id: {} }, undefined, {}],
    [{}, undefined, {}],
    [null, undefined, {}],
    ['a', undefined, {}],
    [{ id: longest }, longest, {}],
    [{ id: `${longest}x` }, undefined, {}],
    [{ id: 'a', booth: 'A-17' }, 'A-17', { exhibitorId }],
    [{ booth: `${longest}x` }, undefined, { exhibitorId }],
  ])('of %j is %p (options: %p)', (record, id, options) => {
    expect(exhibitorIdOf(options)(record)).toBe(id);
  });
});
