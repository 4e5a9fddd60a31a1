/**
 * What a guard adds to a route: CPU time and requests per second, beside the same requests to a route without a guard, and beside the
 * session of a host. Lookups are cached. `npm run bench -- guards Fastify` measures one platform.
 */
import {
  check,
  describeMachine,
  interleavePairs,
  printTable,
  quantile,
  quartiles,
  show,
  spread,
  start,
} from './harness.mjs';
import { Load } from './guards-load.mjs';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 17);
/**
 * Rounds of what has a target on Express: up to Node 22, a block of its bare route may take three times as long as the next one,
 * so that the median of 50 pairs is right to 8 µs only.
 */
const EXPRESS_ROUNDS = Number(process.env.BENCH_ROUNDS ?? 250);
/** Milliseconds of a block. */
const BLOCK = Number(process.env.BENCH_MS ?? 50);
const USERS = 100;
/** Requests of each user before the first block. */
const WARM_UP = 30;

/** Largest extra CPU time of our guard in µs, by kind of session. */
const TARGETS = {
  Fastify: { cookie: 40, host: 20 },
  Express: { cookie: 75, host: 60 },
};
const PEERS = {
  Fastify: ['@fastify/secure-session', 'iron-session'],
  Express: ['express-session', 'iron-session'],
};

const [, , , only] = process.argv;
const stub = await start('stub.mjs');
for (const platform of Object.keys(TARGETS).filter((name) => name === (only ?? name))) {
  console.log(`## Guards on ${platform}, 32 connections — ${describeMachine()}\n`);
  const kinds = [...Object.keys(TARGETS[platform]), ...PEERS[platform]];
  const [bare, ...hosts] = await Promise.all(['none', ...kinds].map((kind) => startHost(platform, kind)));
  const variants = Object.fromEntries(hosts.map((host) => [host.kind, variantOf(host, bare)]));
  for (const variant of Object.values(variants)) {
    await variant.warmUp();
  }
  const isChecked = (kind) => TARGETS[platform][kind] !== undefined;
  const seen = await interleavePairs(variants, BLOCK, (kind) =>
    platform === 'Express' && isChecked(kind) ? EXPRESS_ROUNDS : ROUNDS,
  );
  report(platform, seen);
  await Promise.all([bare, ...hosts].map((host) => host.stop()));
}
await stub.stop();

async function startHost(platform, kind) {
  const { ready: port, ...host } = await start('guards-host.mjs', [platform, kind, stub.ready]);
  const users = Array.from({ length: USERS }, (_, user) => credentials(port, kind, user));
  return { ...host, kind, load: new Load(port), users: await Promise.all(users) };
}

/** The header line of a user: the host's own session reads a header, the others set a cookie at the login. */
async function credentials(port, kind, user) {
  if (kind === 'host' || kind === 'none') {
    return `X-User: ${user}`;
  }
  const reply = await fetch(`http://127.0.0.1:${port}/login?user=${user}`);
  const cookies = reply.headers.getSetCookie().map((cookie) => cookie.split(';', 1)[0]);
  return `Cookie: ${cookies.join('; ')}`;
}

/**
 * Our guard is compared with a bare route of its own process, since two processes of the same host differ by a tenth. The session
 * of a peer may take time on its bare route as well: that one is compared with another process. The requests are the same: their
 * headers take time on every route.
 */
function variantOf(host, bare) {
  const base = PEERS.Fastify.concat(PEERS.Express).includes(host.kind) ? bare : host;
  const send = ({ load }, route, headers, ms) => load.send(`/${route}/bench-2026`, headers, ms);
  const measure = async (measured, route, ms) => {
    const before = await measured.ask('cpu');
    const began = performance.now();
    const count = await send(measured, route, host.users, ms);
    const wallMs = performance.now() - began;
    const after = await measured.ask('cpu');
    const cpuUs = after.user + after.system - before.user - before.system;
    return { rate: (count * 1000) / wallMs, cpuUs: cpuUs / count };
  };
  return {
    ask: (ms) => measure(host, 'mine', ms),
    askBase: (ms) => measure(base, 'bare', ms),
    async warmUp() {
      const requests = Array(WARM_UP).fill(host.users).flat();
      await send(base, 'bare', requests);
      await send(host, 'mine', requests);
    },
  };
}

function report(platform, seen) {
  const bare = Object.values(seen).flatMap((pairs) => pairs.map(({ base }) => base));
  const quiet = quantile(
    bare.map(({ cpuUs }) => cpuUs),
    0.1,
  );
  // What else the machine does makes a request cost several times as much: both of a pair by the same factor, which their
  // quotient does not have.
  const beyond = (kind) =>
    quartiles(seen[kind].map(({ measured, base }) => (measured.cpuUs / base.cpuUs - 1) * quiet));
  const share = (kind) => quartiles(seen[kind].map(({ measured, base }) => measured.rate / base.rate));
  console.log(
    'Each block is paired with one of the same requests to the bare route: medians of the pairs, and their quartiles. Extra CPU time is that of the ' +
      `quotient of a pair, times the ${quiet.toFixed(1)} µs a request of the bare route in its quietest tenth of blocks.\n`,
  );
  printTable(
    [`${platform}, lookup cached`, 'requests/s ÷ bare', 'extra CPU a request, µs'],
    Object.keys(seen).map((kind) => {
      const label = TARGETS[platform][kind] === undefined ? kind : `\`ExhibitorGuard\`, ${kind}`;
      return [label, show(share(kind), 2), show(beyond(kind))];
    }),
  );
  const cpu = show(spread(bare.map(({ cpuUs }) => cpuUs)));
  const rate = show(spread(bare.map((one) => one.rate)), 0);
  console.log(
    `The bare route takes ${cpu} µs of CPU time a request and serves ${rate} requests per second (smallest and largest).\n`,
  );
  for (const [kind, most] of Object.entries(TARGETS[platform])) {
    const extra = beyond(kind);
    check(`${platform}, ${kind}: extra CPU ≤ ${most} µs`, show(extra), extra.median <= most);
  }
  for (const name of PEERS[platform]) {
    const [ours, theirs] = [beyond('cookie').median, beyond(name).median];
    const both = `${ours.toFixed(1)} < ${theirs.toFixed(1)}`;
    check(`${platform}, cookie: less CPU than ${name}`, both, ours < theirs);
  }
  console.log();
}
