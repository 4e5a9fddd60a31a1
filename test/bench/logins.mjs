/** What 20,000 logins that are started and left leave in the memory of a host: each is in its `state`, and nowhere else. */
import { Agent, request } from 'node:http';
import { check, describeMachine, start } from './harness.mjs';

const LOGINS = Number(process.env.BENCH_LOGINS ?? 20_000);
const WARM_UP = 5_000;
const CONNECTIONS = 32;

const stub = await start('stub.mjs');
const host = await start('logins-host.mjs', [stub.ready], ['--expose-gc', '--no-opt', '--no-sparkplug']);
console.log(`## Heap of ${LOGINS} started logins — ${describeMachine()}\n`);
const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
// The host of `redirectUri`: elsewhere, a login is led there first.
const options = {
  port: host.ready,
  path: '/auth/login?returnTo=/mine',
  headers: { host: '127.0.0.1' },
  agent,
};

async function startLogins(count) {
  let left = count;
  const visitor = async () => {
    while (left > 0) {
      left -= 1;
      await new Promise((resolve, reject) => {
        request(options, (reply) => {
          const isStarted = reply.statusCode === 302 && reply.headers.location.includes('state=');
          reply.resume().on('end', isStarted ? resolve : () => reject(new Error('no login was started')));
        })
          .on('error', reject)
          .end();
      });
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, visitor));
}

await startLogins(WARM_UP);
const before = await host.ask({});
await startLogins(LOGINS);
const bytes = ((await host.ask({})) - before) / LOGINS;
check('heap a started login ≤ 20 bytes', bytes.toFixed(1), bytes <= 20);
agent.destroy();
await Promise.all([host.stop(), stub.stop()]);
