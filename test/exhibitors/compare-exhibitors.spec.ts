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
    // Two exhibitors, both read as 9007199254740992.
    const rounded = [0, 1].map((more) => 2 ** 53 + more).map((ref) => ({ id: ref, ref }));
    for (const id of [undefined, (one: { ref: number }) => one.ref]) {
      expect(() => compareExhibitors(rounded, [], id)).toThrow(refusal);
    }
    expect(compareExhibitors([{ ref: 7 }], [{ ref: 7 }], ({ ref }) => ref).unchanged).toHaveLength(1);
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
    // Text, or a safe integer: JSON.parse rounds larger ones, two of them to the same.
    [JSON.parse('{"id":9007199254740991}'), '9007199254740991', {}],
    [JSON.parse('{"id":9007199254740993}'), undefined, {}],
    [JSON.parse('{"id":-9007199254740993}'), undefined, {}],
    [JSON.parse('{"id":9007199254740993,"exhibitorId":"b"}'), 'b', {}],
    [{ id: '9007199254740993' }, '9007199254740993', {}],
    [JSON.parse('{"id":1e21}'), undefined, {}],
    [JSON.parse('{"id":1e999}'), undefined, {}],
    [{ id: 1.5 }, undefined, {}],
    [{ id: Number.NaN }, undefined, {}],
    [{ id: -7 }, '-7', {}],
    [{ id: -0 }, '0', {}],
    [{ id: 7n }, '7', {}],
    [{ id: 9007199254740993n }, undefined, {}],
    [{ id: ' ' }, undefined, {}],
    [{ id: null }, undefined, {}],
    [{ id: true }, undefined, {}],
    [{ id: ['a'] }, undefined, {}],
    [{ id: new String('a') }, undefined, {}],
    [{ booth: 7 }, '7', { exhibitorId }],
    [{ id: 'a' }, undefined, { exhibitorId: ({ booth }: { booth?: unknown }) => booth }],
    [{ booth: 9007199254740992 }, undefined, { exhibitorId: ({ booth }: { booth: number }) => booth }],
    [{ booth: 7 }, '7', { exhibitorId: ({ booth }: { booth: number }) => booth }],
    [{ id: 'a' }, undefined, { exhibitorId: async () => 'a' }],
  ])('of %j is %p (options: %p)', (record, id, options) => {
    expect(exhibitorIdOf(options)(record)).toBe(id);
  });
});
