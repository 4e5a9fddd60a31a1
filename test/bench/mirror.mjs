/** Copying an event into PostgreSQL: rows per second against a plain loop, and memory. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { check, describeMachine, printTable, show, spread, start } from './harness.mjs';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const [PAGES, LATENCY] = [100, 20];
const LARGE_PAGES = 2_000;

const here = (name) => new URL(name, import.meta.url);
const { PostgresServer, newestOfDebian } = await load('../support/postgres-server.ts');
const postgresPath = process.env.POSTGRES_PATH ?? newestOfDebian();
if (postgresPath !== undefined && existsSync(postgresPath)) {
  await run();
} else {
  console.log('postgres was not found: the mirror is not measured. Install it, or set POSTGRES_PATH.');
}

async function run() {
  const [postgres, stub] = await Promise.all([
    PostgresServer.start(postgresPath),
    start(here('streaming-stub.mjs')),
  ]);
  const variant = (name) =>
    start(here('mirror-variants.mjs'), [name, stub.ready, postgres.url], ['--expose-gc']);
  const variants = { loop: await variant('loop'), mirror: await variant('mirror') };
  console.log(`## Copies of an event — ${describeMachine()}\n`);
  await speed(variants);
  await memory(variants.mirror);
  await Promise.all([...Object.values(variants), stub].map((process) => process.stop()));
  await postgres.stop();
}

/** The first round warms up and is dropped. */
async function speed(variants) {
  const seen = { loop: { first: [], again: [] }, mirror: { first: [], again: [] } };
  for (let round = 0; round <= ROUNDS; round += 1) {
    for (const [name, variant] of Object.entries(variants)) {
      await variant.ask({ pages: PAGES, prepare: true });
      for (const kind of ['first', 'again']) {
        const { count, wallMs } = await variant.ask({ pages: PAGES, latency: LATENCY });
        if (round > 0) {
          seen[name][kind].push((count * 1_000) / wallMs);
        }
      }
    }
  }
  const rate = (name, kind) => spread(seen[name][kind]);
  printTable(
    [`${PAGES * 50} rows, pages of ${LATENCY} ms: rows per second`, 'first copy', 'unchanged event'],
    [
      ['`expand`, upsert one by one', show(rate('loop', 'first'), 0), show(rate('loop', 'again'), 0)],
      ['mirror', show(rate('mirror', 'first'), 0), show(rate('mirror', 'again'), 0)],
    ],
  );
  const faster = (kind) => rate('mirror', kind).median / rate('loop', kind).median;
  check('first copy ≥ 2.5 × faster than the loop', faster('first').toFixed(1), faster('first') >= 2.5);
  check('unchanged event ≥ 2.5 × faster than the loop', faster('again').toFixed(1), faster('again') >= 2.5);
  console.log();
}

async function memory(mirror) {
  const rows = [];
  for (const kind of ['first copy', 'unchanged event']) {
    const { before, peak } = await mirror.ask({ pages: LARGE_PAGES, latency: 0, isWatched: true });
    rows.push({ kind, before, peak });
  }
  const megabytes = (bytes) => (bytes / 1024 / 1024).toFixed(1);
  printTable(
    [`${LARGE_PAGES * 50} rows, alive in memory, MiB`, 'before', 'peak', 'copy'],
    rows.map(({ kind, before, peak }) => [
      kind,
      megabytes(before),
      megabytes(peak),
      megabytes(peak - before),
    ]),
  );
  const most = Math.max(...rows.map(({ before, peak }) => peak - before));
  check(`${LARGE_PAGES * 50} rows take ≤ 64 MiB`, megabytes(most), most <= 64 * 1024 * 1024);
  console.log();
}

/** A TypeScript module of the tests. */
async function load(name) {
  const outfile = fileURLToPath(
    here(`../../node_modules/.cache/bench/${name.replace(/.*\/|\.ts$/g, '')}.mjs`),
  );
  const entryPoints = [fileURLToPath(here(name))];
  await build({ entryPoints, bundle: true, platform: 'node', format: 'esm', outfile, logLevel: 'error' });
  return import(outfile);
}
