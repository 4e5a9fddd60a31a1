/** Nanoseconds of `await getToken()` on a cached token. */
import { check, describeMachine, interleave, show, spread, start } from './harness.mjs';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 9);

const stub = await start('stub.mjs');
const cached = await start('variants.mjs', ['cached token', stub.ready]);
console.log(`## Tokens — ${describeMachine()}\n`);
const seen = await interleave({ cached }, { calls: 1_000_000 }, ROUNDS);
const nanoseconds = spread(seen.cached.map(({ wallMs, calls }) => (wallMs * 1e6) / calls));
check('await getToken() on a cached token ≤ 300 ns', show(nanoseconds), nanoseconds.median <= 300);
await Promise.all([cached.stop(), stub.stop()]);
