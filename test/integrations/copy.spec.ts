/** `copyEvent` in a host: a real sandbox over HTTP, a database in memory. */
import { Test } from '@nestjs/testing';
import { beforeEach, describe, expect, it } from '@jest/globals';
import { ExhibitorModule, ExhibitorsService, type Exhibitor } from '../../lib/index.js';
import {
  copyEvent,
  type MirrorBatch,
  type MirrorOptions,
  type MirrorResult,
  type MirrorScope,
  type MirrorTarget,
  type Row,
} from '../../lib/integrations/mirror/index.js';
import type { SandboxExhibitor } from '../../lib/development/testing/index.js';
import { COOKIE_SECRET } from '../support/host.js';
import type { OtherOptions } from '../support/module-options.js';
import { useClosing, useSandbox } from '../support/lifetimes.js';
import { pause } from '../support/wait.js';

const SCOPE = { tenant: 'acme', eventId: 'fair' };
const NOTHING = { added: 0, changed: 0, removed: 0, superseded: false };

/** A database in memory that keeps the contract of a target, for one event. */
class MemoryTarget implements MirrorTarget {
  generation = 0;
  readonly rows = new Map<string, Row>();
  readonly batches: (MirrorBatch & { scope: MirrorScope; refused: boolean })[] = [];
  /** Called before each batch: to wait, to fail, or to change the event meanwhile. */
  before: () => unknown = () => {};

  async begin(): Promise<number> {
    this.generation += 1;
    return this.generation;
  }

  async *known(): AsyncGenerator<Row> {
    yield* this.rows.values();
  }

  async apply(scope: MirrorScope, batch: MirrorBatch): Promise<boolean> {
    await this.before();
    const refused = batch.generation < this.generation;
    this.batches.push({ ...batch, scope, refused });
    if (!refused) {
      [...batch.added, ...batch.changed].forEach((row) => this.rows.set(row.id, row));
      batch.removed.forEach((id) => this.rows.delete(id));
    }
    return !refused;
  }
}

const sandbox = await useSandbox();
const closing = useClosing();

describe('a copy of an event', () => {
  let target: MemoryTarget;
  let exhibitors: ExhibitorsService;

  /** Of a module with these options. */
  async function start(others: OtherOptions = {}): Promise<ExhibitorsService> {
    const tenants = { acme: sandbox.tenantOptions('acme'), globex: sandbox.tenantOptions('globex') };
    const options = { tenants, secrets: [COOKIE_SECRET], http: { attempts: 1 }, ...others };
    const builder = Test.createTestingModule({ imports: [ExhibitorModule.forRoot(options)] });
    return closing(await builder.compile()).get(ExhibitorsService);
  }

  const copy = (options?: MirrorOptions): Promise<MirrorResult> =>
    copyEvent(exhibitors, target, SCOPE, options);

  function records(count: number, name = 'Booth'): SandboxExhibitor[] {
    return Array.from({ length: count }, (_, index) => ({
      id: `x-${index + 1}`,
      name: `${name} ${index + 1}`,
      contactEmails: [],
    }));
  }
  const set = (list: readonly SandboxExhibitor[]): void => sandbox.setExhibitors('fair', list, 'acme');

  beforeEach(async () => {
    sandbox.clearRequests();
    set(records(120));
    exhibitors = await start();
    target = new MemoryTarget();
  });

  it('writes the event in batches, with a digest of each record', async () => {
    expect(await copy({ batch: 50 })).toEqual({ ...NOTHING, rows: 120, added: 120 });
    expect(target.batches.map(({ added }) => added.length)).toEqual([50, 50, 20]);
    expect(target.batches).toEqual(Array(3).fill(expect.objectContaining({ generation: 1, scope: SCOPE })));
    const digest = expect.stringMatching(/^[\w-]{22}$/);
    expect(target.rows.values().next().value).toEqual({ id: 'x-1', digest, exhibitor: records(1)[0] });
  });

  it('writes nothing for an event that did not change, whatever the order of its members', async () => {
    await copy();
    target.batches.length = 0;
    set(records(120).map(({ id, ...rest }) => ({ ...rest, id })));
    expect(await copy()).toEqual({ ...NOTHING, rows: 120 });
    expect(target.batches).toEqual([]);
  });

  it('adds, changes and removes rows, those removed last', async () => {
    await copy();
    target.batches.length = 0;
    set([...records(60, 'New').slice(0, 2), ...records(125).slice(7)]);
    expect(await copy()).toEqual({ ...NOTHING, rows: 120, added: 5, changed: 2, removed: 5 });
    expect(target.batches.map(({ removed }) => removed)).toEqual([[], ['x-3', 'x-4', 'x-5', 'x-6', 'x-7']]);
    expect(target.rows.size).toBe(120);
  });

  it('reads an event again that changes while it is read, and keeps what was applied', async () => {
    // Five pages are read or on their way when the first batch is written.
    target.before = () => target.batches.length === 0 && set(records(401));
    set(records(400));
    expect(await copy({ batch: 50 })).toEqual({ ...NOTHING, rows: 401, added: 401 });
    expect(target.rows.size).toBe(401);
    expect(sandbox.requests.filter(({ query }) => query['Page'] === '1')).toHaveLength(2);
    expect(target.generation).toBe(1);
  });

  it('fails where an event changes in each of five readings, and removes nothing', async () => {
    await copy({ batch: 50 });
    let count = 500;
    target.before = () => set(records((count += 50)).slice(5));
    set(records(500).slice(5));
    sandbox.clearRequests();
    await expect(copy({ batch: 50 })).rejects.toMatchObject({ code: 'pagination_drift', tenant: 'acme' });
    expect(sandbox.requests.filter(({ query }) => query['Page'] === '1')).toHaveLength(5);
    expect([...target.rows.keys()]).toEqual(expect.arrayContaining(records(5).map(({ id }) => id)));
    // The next one finishes it.
    target.before = () => {};
    expect(await copy()).toMatchObject({ removed: 5 });
  });

  it('fails for an event with one id twice, or with a record without id', async () => {
    set([...records(60), ...records(1)]);
    await expect(copy()).rejects.toThrow('an exhibitor id is repeated, expected unique');
    exhibitors = await start({ exhibitorId: ({ name }) => (name === 'Booth 2' ? '' : String(name)) });
    await expect(copy()).rejects.toMatchObject({ code: 'malformed_response' });
    set(records(2).map((record, index) => ({ ...record, number: index === 0 ? 7 : 9007199254740992 })));
    exhibitors = await start({ exhibitorId: ({ number }: Exhibitor) => Number(number) });
    await expect(copy()).rejects.toMatchObject({ code: 'malformed_response' });
  });

  it('takes the id from the option exhibitorId, and rows as exhibitorSchema makes them', async () => {
    const exhibitorSchema = {
      '~standard': {
        version: 1,
        vendor: 'test',
        validate: (value: unknown) => ({ value: { name: (value as { name: string }).name.toUpperCase() } }),
      },
    } as const;
    exhibitors = await start({ exhibitorSchema, exhibitorId: ({ name }) => String(name).slice(6) });
    await copy();
    expect(target.rows.values().next().value).toMatchObject({ id: '1', exhibitor: { name: 'BOOTH 1' } });
  });

  it.each([
    ['a date', new Date(0), new Date(1)],
    ['a list', [1, 2], [2, 1]],
    ['an object', { b: 1, a: 2 }, { a: 1, b: 2 }],
  ])('sees that %s, which a schema makes, is another', async (_what, before, after) => {
    set(records(2));
    let made: unknown = before;
    const validate = (value: unknown) => ({ value: { id: (value as { id: string }).id, made } });
    exhibitors = await start({ exhibitorSchema: { '~standard': { version: 1, vendor: 'test', validate } } });
    await copy();
    expect(await copy()).toMatchObject({ changed: 0 });
    made = after;
    expect(await copy()).toMatchObject({ changed: 2 });
  });

  it('ends quietly where a newer copy has begun, and removes nothing', async () => {
    await copy();
    set(records(120, 'New').slice(5));
    target.batches.length = 0;
    let newer: Promise<MirrorResult> | undefined;
    target.before = async () => {
      if (newer === undefined) {
        // The newer copy sees the rows again that the older one would remove.
        set(records(120, 'Newer'));
        newer = copy();
        await newer;
      }
    };
    expect(await copy()).toMatchObject({ changed: 0, removed: 0, superseded: true });
    expect(await newer).toMatchObject({ changed: 120, superseded: false });
    expect(target.generation).toBe(3);
    expect(target.batches).toMatchObject([
      { generation: 3, refused: false },
      { generation: 2, refused: true },
    ]);
    expect([...target.rows.values()].map(({ exhibitor }) => exhibitor)).toEqual(records(120, 'Newer'));
  });

  it.each<[string, number, number, number | undefined, MirrorOptions]>([
    ['10 rows of 20', 20, 10, undefined, {}],
    ['11 rows of 20', 20, 11, 11, {}],
    ['11 rows of 110: one tenth', 110, 11, undefined, {}],
    ['11 rows of 109', 109, 11, 11, {}],
    ['the only row', 1, 1, 1, {}],
    ['all rows, whatever the limit is', 120, 120, 120, { maxRemovals: Infinity }],
    ['all but one, with a limit as large', 120, 119, undefined, { maxRemovals: 119 }],
    ['one row, where none may go', 120, 1, 1, { maxRemovals: 0 }],
    ['as many as a function says', 100, 50, undefined, { maxRemovals: (known) => known / 2 }],
    ['more than a function says', 100, 51, 51, { maxRemovals: (known) => known / 2 }],
  ])('holds removals back: %s', async (_name, known, removed, held, options) => {
    set(records(known));
    await copy();
    set(records(known).slice(removed));
    const result = await copy(options);
    expect([result.held, result.removed]).toEqual([held, held === undefined ? removed : 0]);
    expect(target.rows.size).toBe(held === undefined ? known - removed : known);
  });

  it('holds removals back, applies the rest, and removes them where more are allowed', async () => {
    await copy();
    target.batches.length = 0;
    set([...records(1, 'New'), ...records(130).slice(21)]);
    expect(await copy()).toEqual({ ...NOTHING, rows: 110, added: 10, changed: 1, held: 20 });
    expect(await copy({ maxRemovals: 20 })).toEqual({ ...NOTHING, rows: 110, removed: 20 });
  });

  it('keeps the rows of an event that answers 404', async () => {
    await copy();
    sandbox.failNext('list', { kind: 'status', status: 404 });
    await expect(copy()).rejects.toMatchObject({ code: 'not_found' });
    expect(target.rows.size).toBe(120);
  });

  it('leaves what it wrote where it dies or is aborted, and the next copy finishes it', async () => {
    const failure = new Error('the connection is lost');
    let applied = 0;
    target.before = () => {
      applied += 1;
      if (applied === 2) {
        throw failure;
      }
    };
    await expect(copy({ batch: 50 })).rejects.toBe(failure);
    expect(target.rows.size).toBe(50);
    const abort = new AbortController();
    target.before = () => target.rows.size === 100 && abort.abort();
    const { signal } = abort;
    await expect(copy({ batch: 10, signal })).rejects.toMatchObject({ code: 'aborted', tenant: 'acme' });
    const left = target.rows.size;
    expect(left).toBeGreaterThanOrEqual(100);
    expect(left).toBeLessThan(120);
    target.before = () => {};
    expect(await copy()).toMatchObject({ rows: 120, added: 120 - left });
    // One that is aborted before it begins does not end a copy that is under way.
    const { generation } = target;
    await expect(copy({ signal })).rejects.toMatchObject({ code: 'aborted' });
    expect(target.generation).toBe(generation);
  });

  it('pauses the reading while the database is slow', async () => {
    set(records(600));
    let release = (): void => {};
    const released = new Promise<void>((resolve) => (release = resolve));
    target.before = () => released;
    const copied = copy({ batch: 10 });
    await pause(100);
    const lists = (): number => sandbox.requests.filter(({ operation }) => operation === 'list').length;
    expect(lists()).toBeLessThanOrEqual(6);
    release();
    await copied;
    expect(lists()).toBe(12);
  });

  it.each<[string, MirrorOptions]>([
    ['batch', { batch: 0 }],
    ['batch', { batch: 10_001 }],
    ['maxRemovals', { maxRemovals: -1 }],
    ['maxRemovals', { maxRemovals: () => Number.NaN }],
  ])('refuses a wrong %s: %j', async (name, options) => {
    const refused = { code: 'invalid_argument', message: expect.stringContaining(name) };
    await expect(copy(options)).rejects.toMatchObject(refused);
    expect(target.batches).toEqual([]);
    // A copy that begins ends the one before it. What a function returns is known later.
    expect(target.generation).toBe(typeof options.maxRemovals === 'function' ? 1 : 0);
  });

  it('begins no copy of an event that cannot be', async () => {
    const copied = copyEvent(exhibitors, target, { tenant: 'acme', eventId: 'a/b' });
    await expect(copied).rejects.toMatchObject({ code: 'invalid_argument' });
    expect(target.generation).toBe(0);
  });
});
