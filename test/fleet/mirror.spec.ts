/** Events of several tenants, copied by processes that are killed, from a service that changes and fails. */
import { randomInt } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { Pool } from 'pg';
import { MIRROR_TABLES } from '../../sample/mirror/postgres-mirror.js';
import type { MirrorScope } from '../../lib/integrations/mirror/index.js';
import { describeWithPostgres, PostgresServer } from '../support/postgres.js';
import { describeWithRedis, RedisServer } from '../support/redis.js';
import { COOKIE_SECRET } from '../support/host.js';
import { pause } from '../support/wait.js';
import { CompiledSources } from './compile.js';
import { FleetProcess } from './fleet.js';
import { MirrorAudit } from './mirror-audit.js';
import type { MirrorCommands } from './mirror-process.js';
import { MirrorWorld, SCOPES } from './mirror-world.js';

const PROGRAM = 'test/fleet/mirror-process.ts';
const SAMPLE = readdirSync('sample/mirror').filter((name) => name.endsWith('.ts'));
const SOURCES = [
  PROGRAM,
  'test/fleet/obey.ts',
  'sample/booth/booth.schema.ts',
  'sample/same-origin.guard.ts',
  ...SAMPLE.map((name) => `sample/mirror/${name}`),
];
const SIZE = 3;
/** Time of changes, faults and kills: `MIRROR_SECONDS=120` is the long form. */
const CHAOS = Number(process.env['MIRROR_SECONDS'] ?? 20) * 1_000;
/** Time after which each table must equal its event. */
const SETTLED_WITHIN = 60_000;
/** More copies than the processes can make: none of the events may be left out. */
const EVERY = 1_000;
/** Longer than the lock of a job, 10 s, and the check for stalled jobs, 5 s: another process takes it over. */
const FROZEN = 17_000;

type Worker = FleetProcess<MirrorCommands>;

function nameOf({ tenant, eventId }: MirrorScope): string {
  return `${tenant}/${eventId}`;
}

describeWithPostgres(`${SCOPES.length} events, copied for ${CHAOS / 1_000} s`, (postgresPath) => {
  describeWithRedis(`by ${SIZE} processes that are killed`, (redisPath) => {
    let sources: CompiledSources;
    let postgres: PostgresServer;
    let redis: RedisServer;
    let world: MirrorWorld;
    let pool: Pool;
    let audit: MirrorAudit;
    let workers: Worker[] = [];
    const counts = { changes: 0, kills: 0, frozen: 0, approved: 0, copies: 0 };

    beforeAll(async () => {
      sources = CompiledSources.create(SOURCES);
      [postgres, redis, world] = await Promise.all([
        PostgresServer.start(postgresPath),
        RedisServer.start(redisPath, ['--maxmemory-policy', 'noeviction']),
        MirrorWorld.start(),
      ]);
      pool = new Pool({ connectionString: postgres.url });
      await pool.query(MIRROR_TABLES);
      audit = await MirrorAudit.create(pool);
      workers = await Promise.all(Array.from({ length: SIZE }, start));
    }, 60_000);
    afterAll(async () => {
      await Promise.all(workers.map((worker) => worker.kill()));
      await pool?.end();
      await Promise.all([postgres?.stop(), redis?.stop(), world?.sandbox.stop()]);
      sources?.remove();
    });

    async function start(): Promise<Worker> {
      const worker: Worker = new FleetProcess(sources.path(PROGRAM));
      await worker.send('start', {
        tenants: world.tenants,
        secrets: [COOKIE_SECRET],
        operators: [],
        events: SCOPES,
        every: EVERY,
        redisUrl: redis.url,
        databaseUrl: postgres.url,
      });
      return worker;
    }

    function anyWorker(): { index: number; worker: Worker } {
      const index = randomInt(workers.length);
      const worker = workers[index];
      if (worker === undefined) {
        throw new Error('no process is running');
      }
      return { index, worker };
    }

    /** Until the end: again and again after a pause of so many ms, on average. */
    async function repeat(end: number, every: number, work: () => Promise<void> | void): Promise<void> {
      for (;;) {
        await pause(every * (0.5 + Math.random()));
        if (performance.now() > end) {
          return;
        }
        await work();
      }
    }

    async function killOne(): Promise<void> {
      const { index, worker } = anyWorker();
      await worker.kill();
      counts.kills += 1;
      workers[index] = await start();
    }

    /** It wakes up when others have taken its jobs over. The frozen one is not killed meanwhile. */
    async function freezeOne(): Promise<void> {
      const worker = await start();
      await pause(1_500);
      worker.freeze();
      counts.frozen += 1;
      await pause(FROZEN);
      worker.thaw();
      await pause(2_000);
      await worker.kill();
    }

    /** Copies of one event in all processes at once. All but the newest end without an error. */
    async function copyOne(): Promise<void> {
      const scope = SCOPES[randomInt(SCOPES.length)] ?? { tenant: '', eventId: '' };
      counts.copies += 1;
      // A process may be killed meanwhile.
      await Promise.allSettled(workers.map((worker) => worker.send('copy', scope)));
    }

    /** Events whose table differs. */
    async function different(): Promise<string[]> {
      const { rows } = await pool.query<MirrorScope & { id: string; exhibitor: object }>(
        'SELECT tenant, event_id AS "eventId", id, exhibitor FROM mirrored_exhibitor ORDER BY id',
      );
      const tables = new Map<string, object[]>(SCOPES.map((scope) => [nameOf(scope), []]));
      for (const { id, exhibitor, ...scope } of rows) {
        tables.get(nameOf(scope))?.push({ ...exhibitor, id });
      }
      const differing = SCOPES.filter((scope) => {
        const event = world
          .exhibitors(scope)
          .map(({ contactEmails: _emails, ...exhibitor }) => exhibitor)
          .toSorted((one, other) => (one.id < other.id ? -1 : 1));
        return !isDeepStrictEqual(tables.get(nameOf(scope)), event);
      });
      return differing.map(nameOf);
    }

    async function approveHeld(): Promise<void> {
      const { rows } = await pool.query<MirrorScope & { held: number }>(
        'SELECT tenant, event_id AS "eventId", held FROM mirrored_event WHERE held > 0',
      );
      for (const { held, ...scope } of rows) {
        counts.approved += 1;
        // It fails where a newer copy or a killed process is in its way: then it comes again.
        await anyWorker()
          .worker.send('copy', { ...scope, maxRemovals: held })
          .catch(() => {});
      }
    }

    it(
      'ends with each table as its event, and never wrote what it must not',
      async () => {
        const end = performance.now() + CHAOS;
        world.fail();
        await Promise.all([
          repeat(end, 20, () => {
            counts.changes += 1;
            world.change();
          }),
          repeat(end, 50, copyOne),
          repeat(end, 4_000, killOne),
          ...Array.from({ length: CHAOS > FROZEN * 2 ? 2 : 0 }, () => repeat(end - FROZEN, 5_000, freezeOne)),
        ]);
        world.sandbox.clearFaults();
        const stopped = performance.now();
        let left = await different();
        while (left.length > 0 && performance.now() < stopped + SETTLED_WITHIN) {
          await approveHeld();
          await pause(250);
          left = await different();
        }
        const seconds = Math.round((performance.now() - stopped) / 1_000);
        const seen = await audit.outcomes();
        process.stderr.write(
          `mirror: ${JSON.stringify({ ...counts, ...seen })}, settled after ${seconds} s\n`,
        );
        expect(left).toEqual([]);
        expect(await audit.breaches()).toEqual([]);
        // Otherwise this was no proof.
        expect(counts.kills).toBeGreaterThan(0);
        for (const outcome of ['completed', 'held', 'superseded', 'failed']) {
          expect([outcome, seen[outcome]]).toEqual([outcome, expect.any(Number)]);
        }
      },
      CHAOS + SETTLED_WITHIN + 30_000,
    );

    // As the newest run, or as one that began before it.
    it.each([
      ['a write of an older run', -1, `UPDATE mirrored_exhibitor SET digest = ''`, 'written by an older run'],
      [
        'a row of another tenant',
        0,
        `UPDATE mirrored_exhibitor SET exhibitor = '{"name": "x"}'`,
        'a row of x',
      ],
      ['an event that is emptied', 0, 'DELETE FROM mirrored_exhibitor', 'emptied'],
    ])('would find %s', async (_what, step, statement, breach) => {
      // No process writes meanwhile.
      await Promise.all(workers.map((worker) => worker.kill()));
      await audit.clear();
      const where = `WHERE tenant = 'north' AND event_id = 'event-0'`;
      const { rows } = await pool.query(`SELECT generation FROM mirrored_event ${where}`);
      const generation = Number(rows[0].generation) + step;
      await pool.query(`BEGIN; SET LOCAL mirror.generation = '${generation}'; ${statement} ${where}; COMMIT`);
      expect(await audit.breaches()).toContain(`north/event-0: ${breach}`);
    });
  });
});
