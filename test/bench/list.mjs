/** One page by `list` with a cached token, beside what a host would write without this package. */
import { check, describeMachine, interleave, printTable, show, spread, start } from './harness.mjs';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 7);
/** V8 collects its old space, which is a quarter of the time of these calls, once in 3,000 of them. */
const CALLS = Number(process.env.BENCH_CALLS ?? 6_000);
/** Calls before anything is measured, by each variant: V8 compiles code that runs often. */
const WARM_UP = 4_000;
const NAMES = {
  undici: '`undici.request`',
  axios: 'bare axios',
  httpService: '`HttpService`, hand-written token cache and retry',
  exhibitor: '`ExhibitorsService.list`',
};

const stub = await start(new URL('stub.mjs', import.meta.url));
const variants = {};
for (const name of Object.keys(NAMES)) {
  variants[name] = await start(new URL('list-variants.mjs', import.meta.url), [name, stub.ready]);
}

console.log(`## One page by list, cached token — ${describeMachine()}\n`);
await interleave(variants, { concurrency: 32, calls: WARM_UP }, 0);
for (const concurrency of [1, 32]) {
  const seen = await interleave(variants, { concurrency, calls: CALLS }, ROUNDS);
  report(concurrency, seen);
}
await Promise.all([...Object.values(variants), stub].map((process) => process.stop()));

function report(concurrency, seen) {
  const cpu = (name) => spread(seen[name].map(({ cpuUs, calls }) => cpuUs / calls));
  const rate = (name) => spread(seen[name].map(({ wallMs, calls }) => (calls * 1000) / wallMs));
  const cpuRatio = (name, other) => cpu(name).median / cpu(other).median;
  const rateRatio = (name, other) => rate(name).median / rate(other).median;
  printTable(
    [`concurrency ${concurrency}`, 'CPU per call, µs', '× HttpService', 'calls per second', '× HttpService'],
    Object.entries(NAMES).map(([name, label]) => [
      label,
      show(cpu(name)),
      cpuRatio(name, 'httpService').toFixed(2),
      show(rate(name), 0),
      rateRatio(name, 'httpService').toFixed(2),
    ]),
  );
  const toService = cpuRatio('exhibitor', 'httpService');
  const toUndici = cpuRatio('exhibitor', 'undici');
  check(`CPU of list at ${concurrency} ≤ 0.75 × HttpService`, toService.toFixed(2), toService <= 0.75);
  const most = concurrency === 1 ? 2.2 : 1.45;
  check(`CPU of list at ${concurrency} ≤ ${most} × undici.request`, toUndici.toFixed(2), toUndici <= most);
  if (concurrency === 1) {
    return;
  }
  const served = rateRatio('exhibitor', 'httpService');
  check(`calls of list at ${concurrency} ≥ 1.3 × HttpService`, served.toFixed(2), served >= 1.3);
}
