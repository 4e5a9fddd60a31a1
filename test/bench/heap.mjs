/** The heap of tenants of a source that are each used once, in every way. `BENCH_TENANTS=10000` takes some minutes. */
import { check, describeMachine, printTable, start } from './harness.mjs';

const TENANTS = Number(process.env.BENCH_TENANTS ?? 2_000);
/** V8 compiles on the way, up to 500 bytes a tenant here, which is no state of a tenant. */
const DATA_ONLY = ['--no-opt', '--no-sparkplug'];
const WARM_UP = 1_000;
/** What a use leaves in memory: state of the tenant, or of the person that it is about. */
const OF_TENANT = ['options', 'token', 'page'];
const OF_IDENTITY = ['lookup', 'login', 'bearer'];
const USES = [...OF_TENANT, ...OF_IDENTITY];

const stub = await start(new URL('heap-stub.mjs', import.meta.url));
const host = await start(
  new URL('heap-host.mjs', import.meta.url),
  [stub.ready],
  ['--expose-gc', ...DATA_ONLY],
);
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
const sum = (uses) => uses.reduce((all, use) => all + bytes[use], 0);
check(
  'heap a tenant ≤ 4,000 bytes, beside what its identities need',
  `${sum(OF_TENANT).toFixed(0)}, and ${sum(OF_IDENTITY).toFixed(0)} for one identity with its lookup and login`,
  sum(OF_TENANT) <= 4_000,
);
console.log();
await Promise.all([host.stop(), stub.stop()]);
