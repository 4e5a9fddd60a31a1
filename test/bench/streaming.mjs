/** Whole events: time against the limit of the window, throughput, memory, and the cost of an exhibitor. */
import { check, describeMachine, interleave, printTable, show, spread, start } from './harness.mjs';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 3);
const [PAGES, LATENCY] = [200, 20];
const PREFETCH = [1, 4, 8, 16];
/** Events read before anything is measured, by each variant. */
const WARM_UP = 20;

const here = (name) => new URL(name, import.meta.url);
const stub = await start(here('streaming-stub.mjs'));
const variant = (name, flags) => start(here('streaming-variants.mjs'), [name, stub.ready], flags);
const [exhibitor, expand, pMap] = await Promise.all(
  ['exhibitor', 'expand', 'pMap'].map((name) => variant(name)),
);
const heap = await variant('heap', ['--expose-gc']);

console.log(`## Whole events — ${describeMachine()}\n`);
await warmUp();
await latencyBound();
await processorBound();
await memory();
await perItem();
await Promise.all([exhibitor, expand, pMap, heap, stub].map((process) => process.stop()));

/** V8 compiles code that runs often: in the first events of a process, each page takes twice the CPU time. */
async function warmUp() {
  const question = { pages: PAGES, latency: 0, prefetch: 8 };
  await interleave({ expand, pMap, exhibitor }, question, WARM_UP);
}

/** After page 1, a window of C pages can do no better than this. */
function limit(prefetch) {
  return LATENCY + Math.ceil((PAGES - 1) / prefetch) * LATENCY;
}

async function latencyBound() {
  const ask = (process, prefetch) => ({
    ask: () => process.ask({ pages: PAGES, latency: LATENCY, prefetch }),
  });
  const variants = {
    ...Object.fromEntries(PREFETCH.map((prefetch) => [`stream ${prefetch}`, ask(exhibitor, prefetch)])),
    ...Object.fromEntries(PREFETCH.map((prefetch) => [`p-map ${prefetch}`, ask(pMap, prefetch)])),
    expand: ask(expand),
  };
  const seen = await interleave(variants, undefined, ROUNDS);
  const wall = (name) => spread(seen[name].map(({ wallMs }) => wallMs));
  const sequential = wall('expand').median;
  const row = (label, name, prefetch) => [
    label,
    prefetch,
    show(wall(name), 0),
    (wall(name).median / limit(prefetch)).toFixed(2),
    (sequential / wall(name).median).toFixed(1),
  ];
  printTable(
    [`${PAGES} pages at ${LATENCY} ms`, 'at once', 'ms', '× limit', '× faster than expand'],
    [
      row('rxjs `expand` + axios', 'expand', 1),
      ...PREFETCH.map((prefetch) => row('`p-map` + axios', `p-map ${prefetch}`, prefetch)),
      ...PREFETCH.map((prefetch) => row('`stream`', `stream ${prefetch}`, prefetch)),
    ],
  );
  const toLimit = wall('stream 16').median / limit(16);
  const toExpand = sequential / wall('stream 8').median;
  check('stream at prefetch 16 ≤ 1.15 × limit', toLimit.toFixed(2), toLimit <= 1.15);
  check('stream at prefetch 8 ≥ 6 × faster than expand', toExpand.toFixed(1), toExpand >= 6);
  console.log();
}

async function processorBound() {
  const question = { pages: PAGES, latency: 0, prefetch: 8 };
  const seen = await interleave({ expand, pMap, exhibitor }, question, ROUNDS);
  const rate = (name) => spread(seen[name].map(({ wallMs, count }) => (count * 1000) / wallMs));
  const cpu = (name) => spread(seen[name].map(({ cpuUs, count }) => cpuUs / count));
  const labels = {
    expand: 'rxjs `expand` + axios',
    pMap: '`p-map` + axios, 8',
    exhibitor: '`stream`, prefetch 8',
  };
  printTable(
    [`${PAGES} pages, no latency`, 'exhibitors per second', 'CPU per exhibitor, µs'],
    Object.entries(labels).map(([name, label]) => [label, show(rate(name), 0), show(cpu(name))]),
  );
}

function megabytes(bytes) {
  return (bytes / 1024 / 1024).toFixed(1);
}

async function memory() {
  const sizes = [
    [20, 1],
    [2_000, 20],
  ];
  // Code that is compiled on the way is no part of what a walk keeps.
  await heap.ask({ pages: 200, latency: 0, prefetch: 4, every: 20 });
  const peaks = [];
  for (const [pages, every] of sizes) {
    const { before, peak } = await heap.ask({ pages, latency: 0, prefetch: 4, every });
    peaks.push({ pages, before, peak });
  }
  printTable(
    ['alive on the heap, MiB', 'before', 'peak', 'walk'],
    peaks.map(({ pages, before, peak }) => [
      `${pages} pages`,
      megabytes(before),
      megabytes(peak),
      megabytes(peak - before),
    ]),
  );
  const growth = peaks[1].peak / peaks[0].peak;
  check('heap at 2,000 pages ≤ 1.3 × that at 20', growth.toFixed(2), growth <= 1.3);
  console.log();
}

function items(name) {
  return start(here('streaming-items.mjs'), [name]);
}

async function perItem() {
  const names = ['loop', 'stream', 'generator', 'iterate'];
  const ways = Object.fromEntries(await Promise.all(names.map(async (name) => [name, await items(name)])));
  const seen = await interleave(ways, {}, ROUNDS * 4);
  const each = (name) => spread(seen[name].map(({ cpuUs, count }) => (cpuUs * 1e3) / count));
  printTable(
    ['100,000 exhibitors, parsed beforehand', 'CPU each, ns'],
    [
      ['a plain loop', show(each('loop'))],
      ['`stream`', show(each('stream'))],
      ['a plain async generator', show(each('generator'))],
      ['`iterate`', show(each('iterate'))],
    ],
  );
  const beyond = each('stream').median - each('loop').median;
  check('stream ≤ 60 ns per exhibitor beyond parsing', beyond.toFixed(1), beyond <= 60);
  const toGenerator = each('iterate').median / each('generator').median;
  check('iterate ≤ 1.5 × a plain async generator', toGenerator.toFixed(2), toGenerator <= 1.5);
  await Promise.all(Object.values(ways).map((way) => way.stop()));
}
