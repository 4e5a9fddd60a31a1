/**
 * Runs variants of one piece of work, each in a process of its own and one at a time, in turns, so that what happens
 * on the machine meanwhile meets all of them alike.
 *
 * A variant is a module that calls {@link serveVariant}. A stub is a module that sends its address once it listens.
 */
import { fork } from 'node:child_process';
import { availableParallelism, cpus } from 'node:os';
import { fileURLToPath } from 'node:url';

/** Starts a module of this folder as a process and waits for its first message. */
export async function start(name, args = [], execArgv = []) {
  const file = fileURLToPath(new URL(name, import.meta.url));
  const child = fork(file, args, { execArgv, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const ready = await nextMessage(child);
  return { ready, ask: (question) => ask(child, question), stop: () => stop(child) };
}

function ask(child, question) {
  const answer = nextMessage(child);
  child.send(question);
  return answer;
}

function nextMessage(child) {
  return new Promise((resolve, reject) => {
    const onExit = (code) => reject(new Error(`a process of the benchmark ended early with ${code}`));
    child.once('exit', onExit);
    child.once('message', (message) => {
      child.off('exit', onExit);
      resolve(message);
    });
  });
}

function stop(child) {
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.disconnect();
  return ended;
}

/** In a variant's process: answers each question by doing the work and measuring it. */
export function serveVariant(work) {
  process.on('message', async (question) => process.send(await measure(() => work(question))));
  process.on('disconnect', () => process.exit());
  process.send('ready');
}

/** Without a forced collection before: V8 drops optimized code in it, and reading an event then takes twice the CPU time. */
async function measure(work) {
  const cpuBefore = process.cpuUsage();
  const began = performance.now();
  const counted = await work();
  const wallMs = performance.now() - began;
  const { user, system } = process.cpuUsage(cpuBefore);
  return { ...counted, wallMs, cpuUs: user + system };
}

/** Asks every variant the same question, `rounds` times in turns; the first round warms up and is dropped. */
export async function interleave(variants, question, rounds) {
  const seen = Object.fromEntries(Object.keys(variants).map((name) => [name, []]));
  for (let round = 0; round <= rounds; round += 1) {
    for (const [name, variant] of Object.entries(variants)) {
      const measured = await variant.ask(question);
      if (round > 0) {
        seen[name].push(measured);
      }
    }
  }
  return seen;
}

/**
 * Asks every variant and, right before or after it in turns, what it is compared with, `askBase`. What the machine does
 * meanwhile meets both of a pair alike, and their difference tells the variant's own part. The first round is dropped.
 * `roundsOf` answers the rounds of a variant by its name.
 */
export async function interleavePairs(variants, question, roundsOf) {
  const names = Object.keys(variants);
  const seen = Object.fromEntries(names.map((name) => [name, []]));
  for (let round = 0; round <= Math.max(...names.map(roundsOf)); round += 1) {
    for (const name of names.filter((each) => round <= roundsOf(each))) {
      const variant = variants[name];
      const first = round % 2 === 0 ? await variant.askBase(question) : undefined;
      const measured = await variant.ask(question);
      const pair = { measured, base: first ?? (await variant.askBase(question)) };
      if (round > 0) {
        seen[name].push(pair);
      }
    }
  }
  return seen;
}

/** Median, smallest and largest. */
export function spread(values) {
  return quantiles(values, 0, 1);
}

/** Median, and the quartiles: half of the values are between them. Steadier than {@link spread} on a busy machine. */
export function quartiles(values) {
  return quantiles(values, 0.25, 0.75);
}

function quantiles(values, low, high) {
  return { median: quantile(values, 0.5), low: quantile(values, low), high: quantile(values, high) };
}

/** The value below which this share of the values is. */
export function quantile(values, share) {
  const sorted = values.toSorted((one, other) => one - other);
  const place = share * (sorted.length - 1);
  const below = sorted[Math.floor(place)];
  return below + (place % 1) * (sorted[Math.ceil(place)] - below);
}

/** `12.3 (11.9–13.0)` */
export function show({ median, low, high }, digits = 1) {
  return `${median.toFixed(digits)} (${low.toFixed(digits)}–${high.toFixed(digits)})`;
}

/** Prints rows as a Markdown table, ready for the README. */
export function printTable(head, rows) {
  const lines = [head, head.map(() => '---'), ...rows];
  console.log(lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n'));
  console.log();
}

/** One promise of the benchmark, kept or not; the process fails if one is not. */
export function check(name, value, holds) {
  console.log(`${holds ? 'ok  ' : 'FAIL'} ${name}: ${value}`);
  if (!holds) {
    process.exitCode = 1;
  }
}

export function describeMachine() {
  const [cpu] = cpus();
  return `Node ${process.version}, ${process.platform} ${process.arch}, ${availableParallelism()} × ${cpu?.model ?? 'unknown CPU'}`;
}

/** Numbers from 0 to 1 that are the same for the same seed (mulberry32). */
export function seededRandom(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** The services of an application without HTTP. */
export async function contextOf(options) {
  await import('reflect-metadata');
  const { NestFactory } = await import('@nestjs/core');
  const { ExhibitorModule, ExhibitorsService, TenantRegistry, TokenService } =
    await import('../../dist/index.js');
  const app = await NestFactory.createApplicationContext(ExhibitorModule.forRoot(options), { logger: false });
  return {
    close: () => app.close(),
    exhibitors: app.get(ExhibitorsService),
    tenants: app.get(TenantRegistry),
    tokens: app.get(TokenService),
  };
}

/** Options of a tenant whose service and provider are a stub. */
export function tenantAt(stub) {
  return { tenantId: 'bench', baseUrl: stub, authUrl: stub, clientId: 'bench', clientSecret: 'bench-secret' };
}
