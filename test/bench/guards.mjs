/**
 * What a guard adds to a route: requests per second and CPU time, beside the same requests to a route without a guard, and
 * beside the session of a host. Lookups are cached. `npm run bench -- guards Fastify cookie` measures one platform and one kind of session.
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
import { credentials } from './guards-credentials.mjs';
import { Load } from './guards-load.mjs';
import { startRedis } from './guards-stores.mjs';

const ROUNDS = Number(process.env.BENCH_ROUNDS ?? 17);
/**
 * Rounds of what has a target on Express: up to Node 22, a block of its bare route may take three times as long as the next one,
 * so that the median of 50 pairs is right to 8 µs only.
 */
const EXPRESS_ROUNDS = Number(process.env.BENCH_ROUNDS ?? 250);
/** Rounds with users that are seen for the first time: making their tokens takes longer than serving them. */
const NEW_ROUNDS = Math.min(5, ROUNDS);
/** Milliseconds of a block. */
const BLOCK = Number(process.env.BENCH_MS ?? 50);
const USERS = 100;
/** Requests of each user before the first block. */
const WARM_UP = 30;
const NEW_USERS = 100;
const BARE = 'bare route';

const SESSIONS = { cookie: 'cookie', host: 'host', bearer: 'bearer', 'cookie, bearer': 'bearer' };
const PEERS = {
  Fastify: ['@fastify/secure-session', 'iron-session'],
  Express: ['express-session', 'iron-session'],
};
/** Largest extra CPU time in µs. */
const TARGETS = {
  Fastify: { cookie: 40, host: 20 },
  Express: { cookie: 75, host: 60 },
};

const [, , , onlyPlatform, onlySession] = process.argv;
const platforms = Object.keys(PEERS).filter((name) => name === (onlyPlatform ?? name));
const sessions = Object.keys(SESSIONS).filter((name) => name === (onlySession ?? name));
const stub = await start(new URL('stub.mjs', import.meta.url));
const redis = await startRedis();
if (redis === undefined) {
  console.log('no redis-server is installed: the rows with Redis are left out');
}
for (const platform of platforms) {
  console.log(`## Guards on ${platform}, 32 connections — ${describeMachine()}\n`);
  const hosts = await startHosts(platform);
  const [bare, ...others] = hosts;
  const variants = Object.assign({}, ...others.map((host) => variantsOf(host, bare)));
  for (const variant of Object.values(variants)) {
    await variant.warmUp();
  }
  const checked = Object.keys(TARGETS[platform]).map(guardOn);
  const warm = await interleavePairs(variants, 'warm', (label) =>
    platform === 'Express' && checked.includes(label) ? EXPRESS_ROUNDS : ROUNDS,
  );
  const fresh = await interleavePairs(variants, 'fresh', () => NEW_ROUNDS);
  report(platform, warm, fresh);
  await Promise.all(hosts.map((host) => host.stop()));
}
redis?.stop();
await stub.stop();

/** Name of the row of our guard with this kind of session. */
function guardOn(session) {
  return `\`ExhibitorGuard\`, ${session}`;
}

function startHosts(platform) {
  const backends = ['', 'memory', ...(redis === undefined ? [] : ['Redis'])];
  const guarded = sessions.flatMap((session) => backends.map((store) => [session, store]));
  const all = [[BARE, ''], ...PEERS[platform].map((name) => [name, '']), ...guarded];
  return Promise.all(all.map(([kind, store]) => startHost(platform, kind, store)));
}

async function startHost(platform, kind, store) {
  const args = [platform, kind, store, stub.ready, String(redis?.port)];
  const { ready: port, ...host } = await start(new URL('guards-host.mjs', import.meta.url), args);
  return { ...host, kind, store, load: new Load(port), users: await usersOf(kind, port) };
}

/** What the requests to a host carry: the users that it knows, and others at each call. */
async function usersOf(kind, port) {
  const carried = SESSIONS[kind] ?? 'session';
  if (kind === BARE) {
    return undefined;
  }
  const known = await credentials(carried, 0, USERS, port);
  let seen = USERS;
  return {
    warm: () => known,
    fresh: () => (carried === 'session' ? known : credentials(carried, (seen += NEW_USERS), NEW_USERS)),
  };
}

/**
 * A guarded route is compared with a bare route of its own process, since two processes of the same host differ by a tenth. The
 * session of a peer may take time on its bare route as well: that one is compared with another process. The requests are the
 * same: their headers take time on every route.
 */
function variantsOf({ kind, store, users, ...host }, bare) {
  const base = SESSIONS[kind] === undefined ? bare : host;
  const variant = (route) => ({
    ask: async (whose) => measure(host, route, await users[whose](), whose),
    askBase: (whose) => measure(base, 'bare', users.warm(), whose),
    async warmUp() {
      const requests = Array(WARM_UP).fill(users.warm()).flat();
      await send(base, 'bare', requests);
      await send(host, route, requests);
    },
  });
  if (SESSIONS[kind] === undefined) {
    return { [kind]: variant('mine') };
  }
  const label = guardOn(kind);
  return store === ''
    ? { [`\`ExhibitorIdentityGuard\`, ${kind}`]: variant('identity'), [label]: variant('mine') }
    : { [`${label}, store in ${store}`]: variant('mine') };
}

function send({ load }, route, headers, ms) {
  return load.send(`/${route}/bench-2026`, headers, ms);
}

/** Known users send requests for a while, new ones one request each. */
async function measure(host, route, headers, whose) {
  const before = await host.ask('cpu');
  const began = performance.now();
  const count = await send(host, route, headers, whose === 'warm' ? BLOCK : undefined);
  const wallMs = performance.now() - began;
  const after = await host.ask('cpu');
  const cpuUs = after.user + after.system - before.user - before.system;
  return { rate: (count * 1000) / wallMs, cpuUs: cpuUs / count };
}

function report(platform, warm, fresh) {
  const bare = Object.values(warm).flatMap((pairs) => pairs.map(({ base }) => base));
  const quiet = quantile(
    bare.map(({ cpuUs }) => cpuUs),
    0.1,
  );
  // What else the machine does makes a request cost several times as much: both of a pair by the same factor, which their
  // quotient does not have.
  const beyond = (label, seen = warm) =>
    quartiles(seen[label].map(({ measured, base }) => (measured.cpuUs / base.cpuUs - 1) * quiet));
  const difference = (label) =>
    quartiles(warm[label].map(({ measured, base }) => measured.cpuUs - base.cpuUs));
  const share = (label) => quartiles(warm[label].map(({ measured, base }) => measured.rate / base.rate));
  console.log(
    'Each block is paired with one of the same requests to the bare route: medians of the pairs, and their quartiles. Extra CPU time is that of the ' +
      `quotient of a pair, times the ${quiet.toFixed(1)} µs a request of the bare route in its quietest tenth of blocks. ` +
      'The last column is the plain difference of a pair.\n',
  );
  printTable(
    [
      `${platform}, lookup cached`,
      'requests/s ÷ bare',
      'extra CPU a request, µs',
      'of a new user, µs',
      'plain difference, µs',
    ],
    Object.keys(warm).map((label) => [
      label,
      show(share(label), 2),
      show(beyond(label)),
      show(beyond(label, fresh)),
      show(difference(label)),
    ]),
  );
  const cpu = show(spread(bare.map(({ cpuUs }) => cpuUs)));
  const rate = show(spread(bare.map((seen) => seen.rate)), 0);
  console.log(
    `The bare route takes ${cpu} µs of CPU time a request and serves ${rate} requests per second (smallest and largest).\n`,
  );
  for (const session of sessions.filter((name) => TARGETS[platform][name] !== undefined)) {
    const most = TARGETS[platform][session];
    const extra = beyond(guardOn(session));
    check(`${platform}, ${session}: extra CPU ≤ ${most} µs`, show(extra), extra.median <= most);
  }
  for (const name of sessions.includes('cookie') ? PEERS[platform] : []) {
    const [ours, theirs] = [beyond(guardOn('cookie')).median, beyond(name).median];
    const both = `${ours.toFixed(1)} < ${theirs.toFixed(1)}`;
    check(`${platform}, cookie: less CPU than ${name}`, both, ours < theirs);
  }
  console.log();
}
