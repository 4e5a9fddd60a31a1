/** The shared stores of `guards.mjs`: a Map, and a real Redis where `redis-server` is installed. */
import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { createClient } from 'redis';

export const stores = {
  memory() {
    const values = new Map();
    return {
      async get(key) {
        const entry = values.get(key);
        return entry !== undefined && entry.until > Date.now() ? entry.value : undefined;
      },
      async set(key, value, { ttl, ifAbsent }) {
        if (ifAbsent && values.has(key)) {
          return false;
        }
        values.set(key, { value, until: Date.now() + ttl });
        return true;
      },
      delete: async (key) => values.delete(key),
    };
  },

  async Redis(port) {
    const client = await createClient({ socket: { host: '127.0.0.1', port: Number(port) } }).connect();
    return {
      get: async (key) => (await client.get(key)) ?? undefined,
      set: async (key, value, { ttl, ifAbsent }) =>
        (await client.set(key, value, { PX: ttl, NX: ifAbsent === true })) === 'OK',
      delete: (key) => client.del(key),
    };
  },
};

/** Ends Redis when its input ends, which it does with the benchmark, however that ends. */
const GUARDIAN = 'redis-server "$@" & exec >&-; read -r _; kill $!';

/** Starts a Redis without persistence; `undefined` where none is installed. */
export async function startRedis() {
  const port = await freePort();
  const options = ['--port', port, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'].map(String);
  const server = spawn('sh', ['-c', GUARDIAN, 'sh', ...options], { stdio: ['pipe', 'pipe', 'ignore'] });
  return new Promise((resolve) => {
    server.once('error', () => resolve(undefined));
    server.stdout.once('end', () => {
      server.stdin.end();
      resolve(undefined);
    });
    server.stdout.on('data', (text) => {
      if (String(text).includes('Ready to accept connections')) {
        resolve({ port, stop: () => server.stdin.end() });
      }
    });
  });
}

function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}
