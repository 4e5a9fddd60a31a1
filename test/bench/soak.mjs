/**
 * Minutes of steady load for three tenants in one process, of which one has a service that fails at random: what do
 * the other two notice, and does the process grow?
 *
 * Quiet and faulty stretches take turns, so that what else the machine does meets both alike.
 *
 * Needs `--expose-gc`. SOAK_SECONDS of faults (300), SOAK_QUIET_SECONDS without (100), SOAK_TURNS (5), SOAK_SEED (2026),
 * SOAK_RATE (calls a second and tenant, 40), SOAK_LARGE (share of the faulty tenant's replies that are 6 MB and do not
 * say so first; 0.025, about their part in the fault suite).
 */
import {
  check,
  describeMachine,
  printTable,
  seededRandom,
  spread,
  start as startProcess,
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
const [ILL, ...WELL] = ['ill', 'well', 'fine'];

const unhandled = [];
process.on('unhandledRejection', (reason) => unhandled.push(reason));

// The tenant that fails has a service process of its own: what its faults cost the service is not ours to answer for.
const [failing, working] = await Promise.all(
  [1, 2].map(() =>
    startProcess(new URL('soak-stub.mjs', import.meta.url), [ILL, String(SEED), String(LARGE)]),
  ),
);
const addressOf = (key) => `${(key === ILL ? failing : working).ready}/${key}`;
await import('reflect-metadata');
const { NestFactory } = await import('@nestjs/core');
const { ExhibitorModule, ExhibitorsService } = await import('../../dist/index.js');
const { firstValueFrom } = await import('rxjs');

const random = seededRandom(SEED);
const tenants = Object.fromEntries(
  [ILL, ...WELL].map((key) => [
    key,
    {
      tenantId: key,
      baseUrl: addressOf(key),
      authUrl: addressOf(key),
      clientId: key,
      clientSecret: `secret of ${key}`,
    },
  ]),
);
const http = { deadline: 3_000, attemptTimeout: 1_000 };
const app = await NestFactory.createApplicationContext(ExhibitorModule.forRoot({ tenants, http }), {
  logger: false,
});
const exhibitors = app.get(ExhibitorsService);

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
await app.close();
await Promise.all([failing.stop(), working.stop()]);

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
  const start = performance.now();
  for (let turn = 0; performance.now() - start < seconds * 1000; turn += 1) {
    for (const key of [ILL, ...WELL]) {
      const call = measured(key, seen[key]).finally(() => calls.delete(call));
      calls.add(call);
    }
    const due = start + ((turn + 1) * 1000) / RATE;
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
  const start = performance.now();
  const chance = random();
  const work =
    chance < 0.7
      ? exhibitors.list('soak-2026', { tenant, page: 1 + Math.floor(chance * 10) })
      : exhibitors.lookup('soak-2026', `person-${Math.floor(chance * 1e6) % PEOPLE}@example.com`, {
          tenant,
          fresh: true,
        });
  const code = await firstValueFrom(work).then(
    () => 'ok',
    (error) => error.code ?? String(error),
  );
  times.push(performance.now() - start);
  codes[code] = (codes[code] ?? 0) + 1;
}

function report() {
  const quantile = (times, share) =>
    times.toSorted((one, other) => one - other)[Math.floor(times.length * share)];
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
    const [before, after] = [quantile(quiet[key].times, 0.99), quantile(faulty[key].times, 0.99)];
    check(`success of "${key}" ≥ 99.9 %`, success(faulty[key]).toFixed(3), success(faulty[key]) >= 99.9);
    check(`p99 of "${key}" ≤ 1.5 × its quiet p99`, (after / before).toFixed(2), after <= 1.5 * before);
  }
  reportMemory();
  check('unhandled rejections = 0', unhandled.length, unhandled.length === 0);
}

/** The first turn settles; after it the last third must not stand above the first. */
function reportMemory() {
  const settled = memory.slice(2);
  const third = Math.ceil(settled.length / 3);
  const inMiB = (name) => memory.map((sample) => (sample[name] / 2 ** 20).toFixed(1)).join(' ');
  for (const [name, label] of Object.entries({ rss: 'RSS', heap: 'heap' })) {
    const values = settled.map((sample) => sample[name]);
    const growth = spread(values.slice(-third)).median / spread(values.slice(0, third)).median;
    console.log(`${label} in MiB after each stretch: ${inMiB(name)}`);
    check(`${label} does not grow: last third ≤ 1.05 × first`, growth.toFixed(3), growth <= 1.05);
  }
}
