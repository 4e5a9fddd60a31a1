/** The heap of tenants of a source, each with a login, a token and a page that was read. `BENCH_TENANTS=10000` takes minutes. */
import { check, describeMachine, printTable, start } from './harness.mjs';

const TENANTS = Number(process.env.BENCH_TENANTS ?? 2_000);
/** V8 compiles on the way, up to 500 bytes a tenant here, which is no state of a tenant. */
const DATA_ONLY = ['--no-opt', '--no-sparkplug'];
const WARM_UP = 1_000;
const USES = ['options', 'token', 'page'];

const stub = await start('stub.mjs');
const host = await start('variants.mjs', ['heap', stub.ready], ['--expose-gc', ...DATA_ONLY]);
console.log(`## Heap of ${TENANTS} tenants — ${describeMachine()}\n`);

let before = 0;
for (const use of USES) {
  before = (await host.ask({ use, from: 0, to: WARM_UP })).bytes;
}
const added = {};
for (const use of USES) {
  const { bytes } = await host.ask({ use, from: WARM_UP, to: WARM_UP + TENANTS });
  added[use] = (bytes - before) / TENANTS;
  before = bytes;
}
printTable(
  ['a tenant used once by', 'adds bytes of heap'],
  USES.map((use) => [use, added[use].toFixed(0)]),
);
const sum = USES.reduce((all, use) => all + added[use], 0);
check('heap a tenant ≤ 4,000 bytes', sum.toFixed(0), sum <= 4_000);
await Promise.all([host.stop(), stub.stop()]);
