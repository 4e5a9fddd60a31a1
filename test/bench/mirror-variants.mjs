/** Copies of an event into PostgreSQL. Arguments: the variant, the address of the stub and that of the database. */
import { NestFactory } from '@nestjs/core';
import pg from 'pg';
import { concatMap, EMPTY, expand, from, lastValueFrom } from 'rxjs';
import { ExhibitorModule, ExhibitorsService } from '../../dist/index.js';
import { copyEvent } from '../../dist/mirror/index.js';
import { MIRROR_TABLES, PostgresMirror } from '../../sample/dist/mirror/postgres-mirror.js';
import { serveVariant, tenantAt } from './harness.mjs';

const [variant, stub, connectionString] = process.argv.slice(2);

const pool = new pg.Pool({ connectionString });
await pool.query(MIRROR_TABLES);
const root = ExhibitorModule.forRootAsync({
  isGlobal: true,
  useFactory: () => ({ tenants: { [variant]: tenantAt(stub) } }),
});
const app = await NestFactory.createApplicationContext(root, { logger: false });
const target = new PostgresMirror(pool);

const copies = {
  async mirror(eventId) {
    await copyEvent(app.get(ExhibitorsService), target, { tenant: variant, eventId });
  },

  /** Each page asks for the next, and each row is written on its own. */
  async loop(eventId) {
    const exhibitors = app.get(ExhibitorsService).forTenant(variant);
    const seen = [];
    const rows = exhibitors.list(eventId).pipe(
      expand(({ paginationMetadata: { hasNextPage, currentPage } }) =>
        hasNextPage ? exhibitors.list(eventId, { page: currentPage + 1 }) : EMPTY,
      ),
      concatMap(({ data }) => from(data)),
      concatMap((exhibitor) => {
        seen.push(exhibitor.id);
        return pool.query(
          `INSERT INTO mirrored_exhibitor VALUES ($1, $2, $3, '', $4)
           ON CONFLICT (tenant, event_id, id) DO UPDATE SET exhibitor = excluded.exhibitor`,
          [variant, eventId, exhibitor.id, JSON.stringify(exhibitor)],
        );
      }),
    );
    await lastValueFrom(rows);
    await pool.query(
      'DELETE FROM mirrored_exhibitor WHERE tenant = $1 AND event_id = $2 AND id <> ALL($3::text[])',
      [variant, eventId, seen],
    );
  },
};

function liveBytes() {
  globalThis.gc();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** Looks at what is alive while the work runs. */
async function watched(work) {
  const before = liveBytes();
  let peak = before;
  const watch = setInterval(() => (peak = Math.max(peak, liveBytes())), 250);
  await work();
  clearInterval(watch);
  return { before, peak };
}

async function countRows(eventId) {
  const { rows } = await pool.query(
    'SELECT count(*)::int FROM mirrored_exhibitor WHERE (tenant, event_id) = ($1, $2)',
    [variant, eventId],
  );
  return rows[0].count;
}

serveVariant(async ({ pages, latency, prepare, isWatched }) => {
  const eventId = `pages-${pages}-latency-${latency}`;
  if (prepare) {
    await pool.query('DELETE FROM mirrored_exhibitor WHERE tenant = $1', [variant]);
    return {};
  }
  const copy = () => copies[variant](eventId);
  const memory = isWatched ? await watched(copy) : await copy();
  const count = await countRows(eventId);
  if (count !== pages * 50) {
    throw new Error(`${count} rows instead of ${pages * 50}`);
  }
  return { ...memory, count };
});
