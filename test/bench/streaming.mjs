/** Whole events: time against the limit of the window, exhibitors a second, memory, and the cost of an exhibitor in a loop. */
import { check, describeMachine, interleave, printTable, show, spread, start } from './harness.mjs';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const [PAGES, LATENCY] = [200, 20];
const PREFETCH = [1, 4, 8, 16];
/** Events read before anything is measured. V8 compiles code that runs often: before, a page takes twice the CPU time. */
const WARM_UP = 20;

const stub = await start('stub.mjs');
const [pMap, stream, generator, iterate] = await Promise.all(
  ['event p-map', 'event stream', 'items generator', 'items iterate'].map((name) =>
    start('variants.mjs', [name, stub.ready]),
  ),
);

console.log(`## Whole events — ${describeMachine()}\n`);
const atOnce = { pages: PAGES, latency: 0, prefetch: 8 };
await interleave({ pMap, stream }, atOnce, WARM_UP);
reportLatency(await interleave(windows(), undefined, ROUNDS));
reportThroughput(await interleave({ pMap, stream }, atOnce, ROUNDS));
await reportMemory();
reportItems(await interleave({ generator, iterate }, {}, ROUNDS * 4));
await Promise.all([pMap, stream, generator, iterate, stub].map((process) => process.stop()));

/** A variant for each prefetch. */
function windows() {
  const ask = (prefetch) => stream.ask({ pages: PAGES, latency: LATENCY, prefetch });
  return Object.fromEntries(PREFETCH.map((prefetch) => [prefetch, { ask: () => ask(prefetch) }]));
}

function reportLatency(seen) {
  const wall = (prefetch) => spread(seen[prefetch].map(({ wallMs }) => wallMs));
  /** After page 1, a window of C pages can do no better than this. */
  const limit = (prefetch) => LATENCY + Math.ceil((PAGES - 1) / prefetch) * LATENCY;
  const toLimit = (prefetch) => wall(prefetch).median / limit(prefetch);
  printTable(
    [`${PAGES} pages at ${LATENCY} ms, prefetch`, 'ms', '× limit'],
    PREFETCH.map((prefetch) => [prefetch, show(wall(prefetch), 0), toLimit(prefetch).toFixed(2)]),
  );
  check('stream at prefetch 16 ≤ 1.15 × limit', toLimit(16).toFixed(2), toLimit(16) <= 1.15);
  console.log();
}

function reportThroughput(seen) {
  const rate = (name) => spread(seen[name].map(({ wallMs, count }) => (count * 1000) / wallMs));
  const cpu = (name) => spread(seen[name].map(({ cpuUs, count }) => cpuUs / count));
  printTable(
    [`${PAGES} pages, no latency, 8 at once`, 'exhibitors per second', 'CPU per exhibitor, µs'],
    [
      ['`p-map` + axios', show(rate('pMap'), 0), show(cpu('pMap'))],
      ['`stream`', show(rate('stream'), 0), show(cpu('stream'))],
    ],
  );
}

async function reportMemory() {
  const reader = await start('variants.mjs', ['event memory', stub.ready], ['--expose-gc']);
  // Code that is compiled on the way is no part of what a reading keeps.
  await reader.ask({ pages: 200 });
  const [few, many] = [await reader.ask({ pages: 20 }), await reader.ask({ pages: 2_000 })];
  await reader.stop();
  const [small, large] = [few, many].map(({ peak }) => (peak / 2 ** 20).toFixed(1));
  check(
    'live heap at 2,000 pages ≤ 1.3 × that at 20',
    `${large} and ${small} MiB`,
    many.peak <= 1.3 * few.peak,
  );
  console.log();
}

function reportItems(seen) {
  const each = (name) => spread(seen[name].map(({ cpuUs, count }) => (cpuUs * 1e3) / count));
  printTable(
    ['100,000 exhibitors, parsed beforehand', 'CPU each, ns'],
    [
      ['a plain async generator', show(each('generator'))],
      ['`iterate`', show(each('iterate'))],
    ],
  );
  const ratio = each('iterate').median / each('generator').median;
  check('iterate ≤ 1.5 × a plain async generator', ratio.toFixed(2), ratio <= 1.5);
}
