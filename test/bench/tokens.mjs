/**
 * What a cached token costs: nanoseconds of `await getToken()`, requests for 1,000 callers at once, and the heap of
 * 10,000 tenants that each hold a token and have sent a request.
 */
import { check, describeMachine, interleave, show, spread, start } from './harness.mjs';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 9);

const stub = await start(new URL('stub.mjs', import.meta.url));
const worker = await start(new URL('token-variants.mjs', import.meta.url), [stub.ready], ['--expose-gc']);
console.log(`## Tokens — ${describeMachine()}\n`);

const { getToken } = await interleave({ getToken: worker }, { work: 'cached', calls: 1_000_000 }, ROUNDS);
const nanoseconds = spread(getToken.map(({ wallMs, calls }) => (wallMs * 1e6) / calls));
check('await getToken() on a cached token ≤ 300 ns', show(nanoseconds), nanoseconds.median <= 300);

const { posts } = await worker.ask({ work: 'burst', calls: 1_000 });
check('POSTs for 1,000 callers at once = 1', posts, posts === 1);

const { bytesPerTenant, bytesPerToken } = await worker.ask({ work: 'heap', tenants: 10_000 });
check(
  'heap per tenant at 10,000 ≤ 3,000 bytes',
  `${bytesPerTenant.toFixed(0)}, of which the text of its token is ${bytesPerToken}`,
  bytesPerTenant <= 3_000,
);
await Promise.all([worker.stop(), stub.stop()]);
