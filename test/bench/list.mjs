/** One page by `list` with a cached token, beside what a host would write without this package. */
import { check, describeMachine, interleave, printTable, show, spread, start } from './harness.mjs';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 7);
/** V8 collects its old space, which is a quarter of the time of these calls, once in 3,000 of them. */
const CALLS = Number(process.env.BENCH_CALLS ?? 6_000);
/** Calls before anything is measured, by each variant: V8 compiles code that runs often. */
const WARM_UP = 4_000;
const NAMES = {
  undici: '`undici.request`',
  HttpService: '`HttpService`, hand-written token cache and retry',
  exhibitor: '`ExhibitorsService.list`',
};

const stub = await start('stub.mjs');
const variants = {};
for (const name of Object.keys(NAMES)) {
  variants[name] = await start('variants.mjs', [`list ${name}`, stub.ready]);
}

console.log(`## One page by list, cached token — ${describeMachine()}\n`);
await interleave(variants, { concurrency: 32, calls: WARM_UP }, 0);
const seen = await interleave(variants, { concurrency: 32, calls: CALLS }, ROUNDS);
await Promise.all([...Object.values(variants), stub].map((process) => process.stop()));

const cpu = (name) => spread(seen[name].map(({ cpuUs, calls }) => cpuUs / calls));
const rate = (name) => spread(seen[name].map(({ wallMs, calls }) => (calls * 1000) / wallMs));
const cpuRatio = (name, other) => cpu(name).median / cpu(other).median;
printTable(
  ['32 calls at once', 'CPU per call, µs', '× undici', 'calls per second', '× undici'],
  Object.entries(NAMES).map(([name, label]) => [
    label,
    show(cpu(name)),
    cpuRatio(name, 'undici').toFixed(2),
    show(rate(name), 0),
    (rate(name).median / rate('undici').median).toFixed(2),
  ]),
);
const toUndici = cpuRatio('exhibitor', 'undici');
const toService = cpuRatio('exhibitor', 'HttpService');
check('CPU of list ≤ 1.55 × undici.request', toUndici.toFixed(2), toUndici <= 1.55);
check('CPU of list ≤ 0.5 × HttpService', toService.toFixed(2), toService <= 0.5);
