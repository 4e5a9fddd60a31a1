/** The heap of tenants of a source that are each used once, in every way. `BENCH_TENANTS=10000` takes some minutes. */
import { check, describeMachine, printTable, start } from './harness.mjs';

const TENANTS = Number(process.env.BENCH_TENANTS ?? 3_000);
const WARM_UP = 1_500;
const USES = ['options', 'token', 'page', 'lookup', 'login', 'bearer'];

const stub = await start(new URL('heap-stub.mjs', import.meta.url));
const host = await start(new URL('heap-host.mjs', import.meta.url), [stub.ready], ['--expose-gc']);
console.log(`## Heap of ${TENANTS} tenants — ${describeMachine()}\n`);

for (const use of USES) {
  await host.ask({ use, from: 0, to: WARM_UP });
}
let before = await host.ask({ use: 'settle' });
const bytes = {};
for (const use of USES) {
  const after = await host.ask({ use, from: WARM_UP, to: WARM_UP + TENANTS });
  bytes[use] = (after - before) / TENANTS;
  before = after;
}
printTable(
  ['a tenant used once by', 'adds bytes of heap'],
  USES.map((use) => [use, bytes[use].toFixed(0)]),
);
const { bearer: identity, ...state } = bytes;
const sum = Object.values(state).reduce((all, each) => all + each, 0);
check(
  'heap a tenant, used in every way ≤ 2,048 bytes',
  `${sum.toFixed(0)}, and its identity ${identity.toFixed(0)}`,
  sum <= 2_048,
);
console.log();
await Promise.all([host.stop(), stub.stop()]);
