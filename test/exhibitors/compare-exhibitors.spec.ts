import { describe, expect, it } from '@jest/globals';
import * as fc from 'fast-check';
import { compareExhibitors } from '../../lib/exhibitors/compare-exhibitors.js';
import { defaultExhibitorId, exhibitorIdOf } from '../../lib/exhibitors/exhibitor-id.js';

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

  it('compares deeply and ignores the order of members', () => {
    const [before, after] = [
      [{ id: 'a', booth: { hall: 1, row: 2 } }],
      [{ booth: { row: 2, hall: 1 }, id: 'a' }],
    ];
    expect(compareExhibitors(before, after).unchanged).toHaveLength(1);
  });

  it('compares what a schema creates', () => {
    const record = (since: number, tag: string) => ({
      id: 'a',
      since: new Date(since),
      tags: new Set([tag]),
    });
    expect(compareExhibitors([record(0, 'a')], [record(0, 'a')]).unchanged).toHaveLength(1);
    expect(compareExhibitors([record(0, 'a')], [record(1, 'a')]).changed).toHaveLength(1);
    expect(compareExhibitors([record(0, 'a')], [record(0, 'b')]).changed).toHaveLength(1);
  });

  it('compares records that refer to themselves', () => {
    const record = (hall: number) => {
      const one: Record<string, unknown> = { id: 'a', hall };
      one['self'] = one;
      return one;
    };
    expect(compareExhibitors([record(1)], [record(1)]).unchanged).toHaveLength(1);
    expect(compareExhibitors([record(1)], [record(2)]).changed).toHaveLength(1);
  });

  it('takes a function that returns the id', () => {
    const changes = compareExhibitors([{ ref: 1, n: 1 }], [{ ref: 1, n: 2 }], ({ ref }) => `ref-${ref}`);
    expect(changes.changed).toEqual([{ before: { ref: 1, n: 1 }, after: { ref: 1, n: 2 } }]);
  });

  it('refuses exhibitors without an id', () => {
    expect(() => compareExhibitors([{ name: 'x' }], [])).toThrow(
      expect.objectContaining({ code: 'invalid_argument' }),
    );
  });

  it('counts every exhibitor exactly once and does not change its arguments', () => {
    const exhibitors = fc.array(fc.record({ id: fc.integer({ min: 0, max: 9 }), v: fc.boolean() }));
    fc.assert(
      fc.property(exhibitors, exhibitors, (before, after) => {
        const copies = JSON.stringify([before, after]);
        const { added, removed, changed, unchanged } = compareExhibitors(before, after);
        const stayed = changed.length + unchanged.length;
        expect(added.length + stayed).toBe(after.length);
        expect(removed.length + stayed).toBe(before.length);
        expect(JSON.stringify([before, after])).toBe(copies);
        expect(compareExhibitors(after, before).added).toHaveLength(removed.length);
      }),
    );
  });
});

describe('the id of an exhibitor', () => {
  it.each<[unknown, string | undefined]>([
    [{ id: 'a', exhibitorId: 'b' }, 'a'],
    [{ exhibitorId: 'b' }, 'b'],
    [{ id: '', exhibitorId: 'b' }, 'b'],
    [{ id: 7 }, '7'],
    [{ id: {} }, undefined],
    [{}, undefined],
    [null, undefined],
    ['a', undefined],
  ])('of %j is %p', (record, id) => {
    expect(defaultExhibitorId(record)).toBe(id);
  });

  it("is the value of the host's function where there is one", () => {
    const idOf = exhibitorIdOf({ exhibitorId: (exhibitor) => (exhibitor as { booth: string }).booth });
    expect(idOf({ id: 'a', booth: 'A-17' })).toBe('A-17');
    expect(exhibitorIdOf({})({ id: 'a' })).toBe('a');
  });

  it('selects nothing beyond 256 bytes, which are stored in a cookie', () => {
    const longest = 'ü'.repeat(128);
    expect(exhibitorIdOf({})({ id: longest })).toBe(longest);
    expect(exhibitorIdOf({})({ id: `${longest}x` })).toBeUndefined();
    expect(exhibitorIdOf({ exhibitorId: () => 'x'.repeat(257) })({})).toBeUndefined();
  });
});
