import { afterAll, beforeAll, beforeEach, expect, it, jest } from '@jest/globals';
import { Pool, type QueryResult } from 'pg';
import { MIRROR_TABLES, PostgresMirror, toText } from '../../sample/mirror/postgres-mirror.js';
import { describeWithPostgres, PostgresServer } from '../support/postgres.js';
import { pause } from '../support/wait.js';

const ACME = { tenant: 'acme', eventId: 'world-2026' };
const OTHERS = [
  { ...ACME, tenant: 'globex' },
  { ...ACME, eventId: 'national-2026' },
];
const NONE = { added: [], changed: [], removed: [] };
/** Half of a surrogate pair. */
const HALF = '\ud800';

function digestOf(id: string): string {
  return `digest of ${toText(id)}`;
}

function rowsOf(...ids: string[]) {
  return ids.map((id) => ({ id, digest: digestOf(id), exhibitor: { id } as object }));
}

describeWithPostgres('the mirror of the sample in PostgreSQL', (path) => {
  let server: PostgresServer;
  let pool: Pool;
  let mirror: PostgresMirror<object>;

  beforeAll(async () => {
    server = await PostgresServer.start(path);
    pool = new Pool({ connectionString: server.url });
    mirror = new PostgresMirror(pool);
    await pool.query(MIRROR_TABLES);
  });
  afterAll(async () => {
    await pool?.end();
    await server?.stop();
  });
  beforeEach(() => pool.query('TRUNCATE mirrored_event, mirrored_exhibitor'));

  async function known(scope = ACME): Promise<string[]> {
    const ids: string[] = [];
    for await (const { id, digest } of mirror.known(scope)) {
      expect(digest).toBe(digestOf(id));
      ids.push(id);
    }
    return ids;
  }

  async function add(scope: typeof ACME, ...ids: string[]): Promise<number> {
    const generation = await mirror.begin(scope);
    expect(await mirror.apply(scope, { ...NONE, generation, added: rowsOf(...ids) })).toBe(true);
    return generation;
  }

  /** Runs the work while another connection has an open transaction with this statement. */
  async function during(statement: string, work: () => Promise<void>): Promise<void> {
    const other = await pool.connect();
    try {
      await other.query('BEGIN');
      await other.query(statement);
      await work();
    } finally {
      await other.query('COMMIT');
      other.release();
    }
  }

  it('raises the generation of each event on its own', async () => {
    expect([await mirror.begin(ACME), await mirror.begin(ACME)]).toEqual([1, 2]);
    expect(await Promise.all(OTHERS.map((scope) => mirror.begin(scope)))).toEqual([1, 1]);
    const together = await Promise.all(Array.from({ length: 8 }, () => mirror.begin(ACME)));
    expect(together.toSorted((one, other) => one - other)).toEqual([3, 4, 5, 6, 7, 8, 9, 10]);
  });

  it('adds, changes and removes rows of its event only', async () => {
    await Promise.all(OTHERS.map((scope) => add(scope, 'a', 'b', 'c')));
    const generation = await add(ACME, 'a', 'b', 'c');
    const changed = [{ id: 'b', digest: 'another', exhibitor: { hall: '4' } }];
    const batch = { generation, added: rowsOf('d'), changed, removed: ['a', 'unknown'] };
    expect(await mirror.apply(ACME, batch)).toBe(true);
    // At least once: a batch may come again.
    expect(await mirror.apply(ACME, batch)).toBe(true);
    const { rows } = await pool.query(
      'SELECT id, exhibitor FROM mirrored_exhibitor WHERE tenant = $1 AND event_id = $2 ORDER BY id',
      [ACME.tenant, ACME.eventId],
    );
    expect(rows).toEqual([
      { id: 'b', exhibitor: { hall: '4' } },
      { id: 'c', exhibitor: { id: 'c' } },
      { id: 'd', exhibitor: { id: 'd' } },
    ]);
    expect(await Promise.all(OTHERS.map(known))).toEqual(OTHERS.map(() => ['a', 'b', 'c']));
  });

  it('reads the known rows page by page', async () => {
    const ids = Array.from({ length: 2_500 }, (_, index) => `exhibitor ${index}`);
    await add(ACME, ...ids);
    const query = jest.spyOn(pool, 'query');
    expect(await known()).toEqual(ids.toSorted());
    const results = await Promise.all(query.mock.results.map(({ value }) => value as Promise<QueryResult>));
    query.mockRestore();
    expect(results.map(({ rows }) => rows.length)).toEqual([1_000, 1_000, 500]);
  });

  it('refuses a batch of an older run, also one that waited while the newer began, and changes nothing', async () => {
    const generation = await add(ACME, 'a');
    let applied: unknown;
    await during('UPDATE mirrored_event SET generation = generation + 1', async () => {
      applied = mirror.apply(ACME, { ...NONE, generation, added: rowsOf('b'), removed: ['a'] });
      expect(await Promise.race([applied, pause(100).then(() => 'waits')])).toBe('waits');
    });
    expect(await applied).toBe(false);
    expect(await known()).toEqual(['a']);
  });

  it('lets a newer run begin after the batch that is being written', async () => {
    const generation = await add(ACME, 'a');
    let both: Promise<unknown>[] = [];
    await during('LOCK mirrored_exhibitor IN EXCLUSIVE MODE', async () => {
      both = [mirror.apply(ACME, { ...NONE, generation, added: rowsOf('b') })];
      await pause(100);
      both.push(mirror.begin(ACME));
      expect(await Promise.race([...both, pause(100).then(() => 'waits')])).toBe('waits');
    });
    expect(await Promise.all(both)).toEqual([true, generation + 1]);
    expect(await known()).toEqual(['a', 'b']);
  });

  it('changes nothing where a statement fails', async () => {
    const generation = await add(ACME, 'a');
    const twice = { ...NONE, generation, added: rowsOf('b', 'c', 'c') };
    await expect(mirror.apply(ACME, twice)).rejects.toThrow('cannot affect row a second time');
    expect(await known()).toEqual(['a']);
    expect(await mirror.apply(ACME, { ...NONE, generation, added: rowsOf('b') })).toBe(true);
  });

  it('holds any id and tenant, and records without what jsonb refuses', async () => {
    const ids = ['\0', '\\', '\\u0000', HALF, '😀', '"', "'", '{a,b}', 'NULL', 'ä'.repeat(128), ' '];
    const odd = { tenant: `\0${HALF}'`, eventId: 'a\\b/é' };
    const generation = await add(odd, ...ids);
    expect(new Set(await known(odd))).toEqual(new Set(ids));
    const removed = ids.filter((id) => id !== '"');
    const exhibitor = {
      ['key\0']: 'a\0b',
      text: '\\u0000 \\ud800',
      half: `x${HALF}`,
      whole: '😀',
      list: [null, 1e300],
    };
    const changed = [{ id: '"', digest: 'another', exhibitor }];
    expect(await mirror.apply(odd, { generation, added: [], changed, removed })).toBe(true);
    const { rows } = await pool.query('SELECT * FROM mirrored_exhibitor WHERE tenant = $1', [
      toText(odd.tenant),
    ]);
    expect(rows.map((row) => row.exhibitor)).toEqual([
      { 'key\ufffd': 'a\ufffdb', text: '\\u0000 \\ud800', half: 'x\ufffd', whole: '😀', list: [null, 1e300] },
    ]);
  });
});
