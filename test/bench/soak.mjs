/**
 * Minutes of steady load for three tenants in one process, of which one has a service that fails at random: what do
 * the other two notice, and does the process grow?
 *
 * Quiet and faulty stretches take turns, so that what else the machine does meets both alike.
 *
 * Then the outages of `outages.mjs`.
 *
 * Needs `--expose-gc`. SOAK_SECONDS of faults (300), SOAK_QUIET_SECONDS without (100), SOAK_TURNS (5), SOAK_SEED (2026),
 * SOAK_RATE (calls a second and tenant, 40), SOAK_LARGE (share of the faulty tenant's replies that are 6 MB and do not
 * say so first; 0.025, about their part in the fault suite).
 */
import { firstValueFrom } from 'rxjs';
import {
  check,
  contextOf,
  describeMachine,
  printTable,
  quantile,
  seededRandom,
  spread,
  start,
  tenantAt,
} from './harness.mjs';

const SECONDS = Number(process.env.SOAK_SECONDS ?? 300);
const QUIET_SECONDS = Number(process.env.SOAK_QUIET_SECONDS ?? 100);
const TURNS = Number(process.env.SOAK_TURNS ?? 5);
const SEED = Number(process.env.SOAK_SEED ?? 2026);
const RATE = Number(process.env.SOAK_RATE ?? 40);
const LARGE = Number(process.env.SOAK_LARGE ?? 0.025);
/** Before each stretch, not measured: echoes of the one before, and code that the forced collection threw away. */
const SETTLING_SECONDS = 5;
/** A bounded cache that still fills would look like a leak. */
const PEOPLE = 500;
/** Of 20 pages. */
const EVENT = 'pages-20-latency-0';
const [ILL, ...WELL] = ['ill', 'well', 'fine'];

const unhandled = [];
process.on('unhandledRejection', (reason) => unhandled.push(reason));

// The tenant that fails has a service process of its own: what its faults cost the service is not ours to answer for.
const [failing, working] = await Promise.all(
  [1, 2].map(() => start('stub.mjs', ['20', String(SEED + 1), String(LARGE)])),
);
const random = seededRandom(SEED);
const tenants = Object.fromEntries(
  [ILL, ...WELL].map((key) => [
    key,
    { ...tenantAt((key === ILL ? failing : working).ready), tenantId: key, clientId: key },
  ]),
);
const { exhibitors, close } = await contextOf({ tenants, http: { deadline: 3_000, attemptTimeout: 1_000 } });

console.log(`## Soak — ${describeMachine()}`);
console.log(
  `seed ${SEED}, ${SECONDS} s with faults on "${ILL}" and ${QUIET_SECONDS} s without, in ${TURNS} turns, ` +
    `${RATE} calls a second and tenant\n`,
);

const memory = [];
const [quiet, faulty] = [nothingSeen(), nothingSeen()];
await phase(10, nothingSeen());
for (let turn = 0; turn < TURNS; turn += 1) {
  await stretch(QUIET_SECONDS / TURNS, quiet);
  await failing.ask('faults');
  await stretch(SECONDS / TURNS, faulty);
  await failing.ask('quiet');
}
report();
await close();
await Promise.all([failing.stop(), working.stop()]);
await import('./outages.mjs');

function nothingSeen() {
  return Object.fromEntries([ILL, ...WELL].map((key) => [key, { times: [], codes: {} }]));
}

async function stretch(seconds, seen) {
  await phase(SETTLING_SECONDS, nothingSeen());
  await phase(seconds, seen);
  await sampleMemory();
}

/** Calls at a steady rate, whether or not the ones before have ended: a slow service meets more of them, not fewer. */
async function phase(seconds, seen) {
  const calls = new Set();
  const began = performance.now();
  for (let turn = 0; performance.now() - began < seconds * 1000; turn += 1) {
    for (const key of [ILL, ...WELL]) {
      const call = measured(key, seen[key]).finally(() => calls.delete(call));
      calls.add(call);
    }
    const due = began + ((turn + 1) * 1000) / RATE;
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, due - performance.now())));
  }
  await Promise.all(calls);
}

/** After a collection, so that what is kept shows and not when V8 last cleaned up; it frees buffers behind our back. */
async function sampleMemory() {
  globalThis.gc();
  await new Promise((resolve) => setTimeout(resolve, 500));
  globalThis.gc();
  const { rss, heapUsed: heap } = process.memoryUsage();
  memory.push({ rss, heap });
}

async function measured(tenant, { times, codes }) {
  const began = performance.now();
  const chance = random();
  const person = `person-${Math.floor(chance * 1e6) % PEOPLE}@example.com`;
  const work =
    chance < 0.7
      ? exhibitors.list(EVENT, { tenant, page: 1 + Math.floor(chance * 10) })
      : exhibitors.lookup(EVENT, person, { tenant, fresh: true });
  const code = await firstValueFrom(work).then(
    () => 'ok',
    (error) => error.code ?? String(error),
  );
  times.push(performance.now() - began);
  codes[code] = (codes[code] ?? 0) + 1;
}

function report() {
  const success = ({ times, codes }) => (100 * (codes.ok ?? 0)) / times.length;
  printTable(
    ['tenant', 'phase', 'calls', 'success, %', 'p50, ms', 'p99, ms', 'ended with'],
    [ILL, ...WELL].flatMap((key) =>
      Object.entries({ quiet: quiet[key], faults: faulty[key] }).map(([name, seen]) => [
        key,
        name,
        seen.times.length,
        success(seen).toFixed(3),
        quantile(seen.times, 0.5).toFixed(2),
        quantile(seen.times, 0.99).toFixed(2),
        JSON.stringify(seen.codes).replaceAll('"', ''),
      ]),
    ),
  );
  for (const key of WELL) {
    const growth = quantile(faulty[key].times, 0.99) / quantile(quiet[key].times, 0.99);
    check(`success of "${key}" ≥ 99.9 %`, success(faulty[key]).toFixed(3), success(faulty[key]) >= 99.9);
    check(`p99 of "${key}" ≤ 1.5 × its quiet p99`, growth.toFixed(2), growth <= 1.5);
  }
  // The first turn settles; after it the last third must not stand above the first.
  const settled = memory.slice(2);
  const third = Math.ceil(settled.length / 3);
  for (const [name, label] of Object.entries({ rss: 'RSS', heap: 'heap' })) {
    const values = settled.map((sample) => sample[name]);
    const growth = spread(values.slice(-third)).median / spread(values.slice(0, third)).median;
    const inMiB = memory.map((sample) => (sample[name] / 2 ** 20).toFixed(1)).join(' ');
    console.log(`${label} in MiB after each stretch: ${inMiB}`);
    check(`${label} does not grow: last third ≤ 1.05 × first`, growth.toFixed(3), growth <= 1.05);
  }
  check('unhandled rejections = 0', unhandled.length, unhandled.length === 0);
}
