/** `ExhibitorMirror.copy` in a host without BullMQ: a real sandbox over HTTP, a database in memory. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { Test, type TestingModule } from '@nestjs/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { areHeld } from '../../lib/bullmq/copy-event.js';
import {
  ExhibitorMirror,
  ExhibitorMirrorModule,
  type ExhibitorMirrorOptions,
} from '../../lib/bullmq/index.js';
import { shortDigestOf } from '../../lib/model/digest.js';
import { canonicalJson } from '../../lib/model/json-values.js';
import { ExhibitorModule, type MirrorMessage } from '../../lib/index.js';
import type { ExhibitorSandbox, SandboxExhibitor } from '../../lib/testing/index.js';
import { COOKIE_SECRET } from '../support/host.js';
import type { OtherOptions } from '../support/module-options.js';
import { startSandbox } from '../support/sandbox.js';
import { MemoryTarget } from './memory-target.js';

const SCOPE = { tenant: 'acme', eventId: 'fair' };
const recordDigest = (record: unknown): string => shortDigestOf(canonicalJson(record));
const CHANNEL = 'nestjs-exhibitor:mirror';

describe('a mirror without a queue', () => {
  let sandbox: ExhibitorSandbox;
  let target: MemoryTarget;
  let mirror: ExhibitorMirror;
  const modules: TestingModule[] = [];
  const messages: MirrorMessage[] = [];
  const collect = (message: unknown): void => void messages.push(message as MirrorMessage);

  async function start(options: Partial<ExhibitorMirrorOptions> = {}, others: OtherOptions = {}) {
    target = new MemoryTarget();
    const module = await Test.createTestingModule({
      imports: [
        ExhibitorModule.forRoot({
          isGlobal: true,
          tenants: { acme: sandbox.tenantOptions('acme'), globex: sandbox.tenantOptions('globex') },
          secrets: [COOKIE_SECRET],
          http: { attempts: 1 },
          ...others,
        }),
        ExhibitorMirrorModule.forRootAsync({ useFactory: () => ({ events: [SCOPE], target, ...options }) }),
      ],
    }).compile();
    modules.push(module);
    mirror = module.get(ExhibitorMirror);
  }

  function records(count: number, name = 'Booth'): SandboxExhibitor[] {
    return Array.from({ length: count }, (_, index) => ({
      id: `x-${index + 1}`,
      name: `${name} ${index + 1}`,
      contactEmails: [],
    }));
  }
  const set = (list: readonly SandboxExhibitor[]): void => sandbox.setExhibitors('fair', list, 'acme');
  const ids = (): string[] => target.rowsOf(SCOPE).map(({ id }) => id);

  beforeAll(async () => {
    sandbox = await startSandbox();
    subscribe(CHANNEL, collect);
  });
  beforeEach(async () => {
    sandbox.clearFaults();
    sandbox.clearRequests();
    messages.length = 0;
    set(records(120));
    await start();
  });
  afterEach(() => Promise.all(modules.splice(0).map((module) => module.close())));
  afterAll(async () => {
    unsubscribe(CHANNEL, collect);
    await sandbox?.stop();
  });

  it('copies an event in batches, with a digest of each record', async () => {
    await start({ batch: 50 });
    const began = Date.now();
    const status = await mirror.copy(SCOPE);
    expect(status).toEqual({ ...SCOPE, rows: 120, completedAt: expect.any(Date) });
    expect(status.completedAt?.getTime()).toBeGreaterThanOrEqual(began);
    expect(target.batches.map(({ added, generation }) => [added.length, generation])).toEqual([
      [50, 1],
      [50, 1],
      [20, 1],
    ]);
    const [row] = target.rowsOf(SCOPE);
    expect(row).toEqual({ id: 'x-1', digest: recordDigest(row?.exhibitor), exhibitor: records(1)[0] });
    expect(row?.digest).toMatch(/^[\w-]{22}$/);
    expect(messages).toEqual([
      {
        ...SCOPE,
        outcome: 'completed',
        durationMs: expect.any(Number),
        pages: 3,
        rows: 120,
        added: 120,
        changed: 0,
        removed: 0,
        held: 0,
      },
    ]);
  });

  it('writes nothing for an event that did not change', async () => {
    await mirror.copy(SCOPE);
    target.written();
    set(records(120).map(({ id, ...rest }) => ({ ...rest, id })));
    await mirror.copy(SCOPE);
    expect(target.batches).toEqual([]);
    expect(await mirror.status()).toEqual([{ ...SCOPE, rows: 120, completedAt: expect.any(Date) }]);
  });

  it('adds, changes and removes rows, those removed last', async () => {
    await mirror.copy(SCOPE);
    target.written();
    set([...records(60, 'New').slice(0, 2), ...records(125).slice(7)]);
    await mirror.copy(SCOPE);
    expect(
      target.batches.map(({ added, changed, removed }) => [added.length, changed.length, removed]),
    ).toEqual([
      [5, 2, []],
      [0, 0, ['x-3', 'x-4', 'x-5', 'x-6', 'x-7']],
    ]);
    expect(ids()).toHaveLength(120);
  });

  it('reads an event again that changes while it is read, and keeps what was applied', async () => {
    await start({ batch: 50 });
    // Five pages are read or on their way when the first batch is written.
    target.before = (step) => step === 'apply' && target.batches.length === 0 && set(records(401));
    set(records(400));
    await mirror.copy(SCOPE);
    expect(ids()).toHaveLength(401);
    expect(target.written()).toEqual({ added: 401, changed: 0, removed: 0 });
    expect(sandbox.requests.filter(({ query }) => query['Page'] === '1')).toHaveLength(2);
    expect(target.begun).toHaveLength(1);
  });

  it('fails where an event changes in each of five readings, and removes nothing', async () => {
    await start({ batch: 50 });
    await mirror.copy(SCOPE);
    let count = 500;
    target.before = (step) => step === 'apply' && set(records((count += 50)).slice(5));
    set(records(500).slice(5));
    await expect(mirror.copy(SCOPE)).rejects.toMatchObject({ code: 'pagination_drift', tenant: 'acme' });
    expect(ids()).toEqual(expect.arrayContaining(records(5).map(({ id }) => id)));
    expect(messages.at(-1)).toMatchObject({
      ...SCOPE,
      outcome: 'failed',
      code: 'pagination_drift',
      removed: 0,
    });
  });

  it('fails for an event with one id twice, or with a record without id', async () => {
    set([...records(60), ...records(1)]);
    await expect(mirror.copy(SCOPE)).rejects.toThrow('an exhibitor id is repeated, expected unique');
    await start({}, { exhibitorId: ({ name }) => (name === 'Booth 2' ? '' : String(name)) });
    await expect(mirror.copy(SCOPE)).rejects.toMatchObject({ code: 'malformed_response' });
    expect(await mirror.status()).toEqual([SCOPE]);
  });

  it('takes the id from the option exhibitorId, and rows as exhibitorSchema makes them', async () => {
    const exhibitorSchema = {
      '~standard': {
        version: 1,
        vendor: 'test',
        validate: (value: unknown) => ({ value: { name: (value as { name: string }).name.toUpperCase() } }),
      },
    } as const;
    await start({}, { exhibitorSchema, exhibitorId: ({ name }) => String(name).slice(6) });
    await mirror.copy(SCOPE);
    expect(target.rowsOf(SCOPE)[0]).toEqual({
      id: '1',
      digest: recordDigest({ name: 'BOOTH 1' }),
      exhibitor: { name: 'BOOTH 1' },
    });
  });

  it('ends quietly where a newer copy has begun, and removes nothing', async () => {
    await mirror.copy(SCOPE);
    set(records(120, 'New').slice(5));
    target.written();
    let newer: Promise<unknown> | undefined;
    target.before = async (step) => {
      if (step === 'apply' && newer === undefined) {
        // The newer copy sees the rows again that the older one would remove.
        set(records(120, 'Newer'));
        newer = mirror.copy(SCOPE);
        await newer;
      }
    };
    await mirror.copy(SCOPE);
    expect(target.begun).toHaveLength(3);
    expect(target.batches.map(({ generation, refused }) => [generation, refused])).toEqual([
      [3, false],
      [2, true],
    ]);
    expect(target.rowsOf(SCOPE).map(({ exhibitor }) => exhibitor['name'])).toEqual(
      records(120, 'Newer').map(({ name }) => name),
    );
    expect(messages.map(({ outcome }) => outcome)).toEqual(['completed', 'completed', 'superseded']);
  });

  it.each([
    ['nothing is gone', 100, 100, 0, false],
    ['10 rows of 20', 20, 10, 10, false],
    ['11 rows of 20', 20, 9, 11, true],
    ['11 rows of 110: one tenth', 110, 99, 11, false],
    ['11 rows of 109', 109, 98, 11, true],
    ['5 of 5, and others came', 5, 5, 5, false],
    ['the only row', 1, 0, 1, true],
    ['all, by a copy that had none', 0, 0, 0, false],
  ])('holds removals back: %s', (_, known, read, removed, held) => {
    expect(areHeld(known, read, removed, { rows: 10, share: 0.1 })).toBe(held);
  });

  it('holds removals back, applies the rest, and removes after approval, once', async () => {
    await mirror.copy(SCOPE);
    target.written();
    set([...records(1, 'New'), ...records(130).slice(21)]);
    expect(await mirror.copy(SCOPE)).toEqual({
      ...SCOPE,
      rows: 110,
      held: 20,
      completedAt: expect.any(Date),
    });
    expect(target.written()).toEqual({ added: 10, changed: 1, removed: 0 });
    expect(messages.at(-1)).toMatchObject({ outcome: 'held', held: 20 });

    await mirror.approve(SCOPE, 19);
    expect(await mirror.copy(SCOPE)).toMatchObject({ held: 20 });
    await mirror.approve(SCOPE, 20);
    expect(await mirror.copy(SCOPE)).toEqual({ ...SCOPE, rows: 110, completedAt: expect.any(Date) });
    expect(target.written()).toEqual({ added: 0, changed: 0, removed: 20 });

    set(records(130).slice(36));
    expect(await mirror.copy(SCOPE)).toMatchObject({ held: 16 });
    await expect(mirror.approve(SCOPE, 0)).rejects.toMatchObject({ code: 'invalid_argument' });
  });

  it('ends an approval with the next copy, though that holds nothing back', async () => {
    await mirror.copy(SCOPE);
    await mirror.approve(SCOPE, 120);
    await mirror.copy(SCOPE);
    set([]);
    expect(await mirror.copy(SCOPE)).toMatchObject({ held: 120 });
    expect(ids()).toHaveLength(120);
  });

  it('uses an approval up before it removes: a copy that ends half-way leaves none', async () => {
    await start({ batch: 50 });
    await mirror.copy(SCOPE);
    set([]);
    await mirror.copy(SCOPE);
    await mirror.approve(SCOPE, 120);
    let applied = 0;
    target.before = (step) => {
      applied += step === 'apply' ? 1 : 0;
      if (step === 'apply' && applied === 2) {
        throw new Error('the connection is lost');
      }
    };
    await expect(mirror.copy(SCOPE)).rejects.toThrow('the connection is lost');
    expect(await mirror.copy(SCOPE)).toMatchObject({ held: 70 });
  });

  it('fails where a target does not say whether it wrote', async () => {
    target.apply = async () => JSON.parse('null') as boolean;
    await expect(mirror.copy(SCOPE)).rejects.toMatchObject({
      code: 'configuration_invalid',
      problems: [{ path: 'target.apply', expected: 'must answer true or false' }],
    });
  });

  it('keeps the rows of an event that answers 404, and of one that answers no exhibitor', async () => {
    await mirror.copy(SCOPE);
    sandbox.failNext('list', { kind: 'status', status: 404 });
    await expect(mirror.copy(SCOPE)).rejects.toMatchObject({ code: 'not_found' });
    expect(ids()).toHaveLength(120);
    set([]);
    expect(await mirror.copy(SCOPE)).toEqual({ ...SCOPE, rows: 0, held: 120, completedAt: expect.any(Date) });
    expect(ids()).toHaveLength(120);
    await mirror.approve(SCOPE, 120);
    await mirror.copy(SCOPE);
    expect(ids()).toEqual([]);
  });

  it('passes on what the target throws', async () => {
    const failure = new Error('the disk is full');
    target.before = (step) => {
      if (step === 'apply') {
        throw failure;
      }
    };
    await expect(mirror.copy(SCOPE)).rejects.toBe(failure);
    expect(messages).toEqual([expect.objectContaining({ ...SCOPE, outcome: 'failed', rows: 120, added: 0 })]);
  });

  it('gives equal records one digest, whatever the order of their members', () => {
    const first = recordDigest({ a: 1, b: { c: [1, 2], d: null } });
    expect(recordDigest({ b: { d: null, c: [1, 2] }, a: 1 })).toBe(first);
    expect(recordDigest({ b: { d: null, c: [2, 1] }, a: 1 })).not.toBe(first);
    expect(recordDigest({ at: new Date(0) })).not.toBe(recordDigest({ at: new Date(1) }));
    expect(recordDigest({ of: new Map([[1, 2]]) })).not.toBe(recordDigest({ of: new Map([[1, 3]]) }));
    expect(recordDigest({ of: new Set([1n]) })).not.toBe(recordDigest({ of: new Set([2n]) }));
  });

  it('names every wrong option by its path', async () => {
    const started = start({
      events: 'world-2026' as never,
      target: { begin: () => 1 } as never,
      batch: 0,
      removals: { share: 2 },
      evry: 1,
    } as never);
    await expect(started).rejects.toMatchObject({
      code: 'configuration_invalid',
      problems: expect.arrayContaining(
        ['events', 'target', 'batch', 'removals.share', 'evry'].map((path) =>
          expect.objectContaining({ path }),
        ),
      ),
    });
  });
});
