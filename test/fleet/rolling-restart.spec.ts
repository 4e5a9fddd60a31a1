/** Processes that are replaced under load, behind a proxy that repeats refused connections only. */
import { once } from 'node:events';
import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { freePort } from '../support/server.js';
import { eventually, pause } from '../support/wait.js';
import type { ConnectionNotice, ProcessConfig } from './commands.js';
import type { CompiledSources } from './compile.js';
import { compileHost, startProcess, type FleetProcess } from './fleet.js';
import { FleetWorld } from './world.js';

const PROCESSES = 3;
/** Of each process. More of them find nothing in CI that three processes do not show. */
const REPLACEMENTS = Number(process.env['RESTARTS'] ?? 1);
/** In ms: 100 requests a second. */
const EVERY = 10;
/** Within which a process ends by itself, in ms. */
const END_WITHIN = 15_000;
const SECRETS = ['the secret of the restart, with 32 characters'];

let world: FleetWorld;
let sources: CompiledSources;
beforeAll(async () => {
  world = await FleetWorld.start(['acme']);
  sources = compileHost();
});
afterAll(async () => {
  await world?.sandbox.stop();
  sources?.remove();
});

/** A place in the fleet: one process after the other on a port. */
class Place {
  #process: FleetProcess | undefined;
  /** When the processes here have taken the last connection of a client port from the kernel. Ports are used again. */
  readonly #accepted = new Map<number, number>();

  constructor(private readonly config: ProcessConfig) {}

  async start(): Promise<void> {
    await startProcess(sources, this.config, (started) => {
      this.#process = started;
      started.child.on('message', ({ accepted }: ConnectionNotice) => {
        if (accepted !== undefined) {
          this.#accepted.set(accepted, performance.now());
        }
      });
    });
  }

  /** Sends SIGTERM. Answers how long the process took to end. */
  async end(): Promise<number> {
    const { child } = this.#process as FleetProcess;
    const began = performance.now();
    const gone = once(child, 'exit');
    child.kill('SIGTERM');
    await gone;
    return performance.now() - began;
  }

  async kill(): Promise<void> {
    await this.#process?.kill();
  }

  /** The status of a reply to a request on a new connection, or the code of the failure. */
  get(): Promise<string> {
    return new Promise((resolve) => {
      const began = performance.now();
      const address = `http://127.0.0.1:${this.config.port}/portals/acme/events/fair`;
      const sent = request(address, { agent: false }, (response) => {
        response.resume().on('error', (error) => resolve(String(error)));
        response.on('end', () => resolve(String(response.statusCode)));
      });
      let clientPort = 0;
      sent.on('socket', (socket) => socket.on('connect', () => (clientPort = socket.localPort ?? 0)));
      sent.on('error', async (error: NodeJS.ErrnoException) => {
        // The message of the process that it took the connection may be under way.
        await pause(200);
        // Not taken: the kernel had queued the connection, and the process closed its listening socket first.
        const isTaken = (this.#accepted.get(clientPort) ?? 0) >= began;
        resolve(isTaken ? (error.code ?? String(error)) : 'refused');
      });
      sent.end();
    });
  }

  /** Opens an endless stream; resolves with the first event. Its end is not an error. */
  openStream(): Promise<void> {
    return new Promise((resolve, reject) => {
      const address = `http://127.0.0.1:${this.config.port}/portals/acme/live/fair`;
      request(address, { agent: false }, (response) => {
        response.on('error', () => {}).on('data', () => resolve());
      })
        .on('error', reject)
        .end();
    });
  }
}

/** Sends each request to the next process; where that refuses the connection, to the one after it. */
class Proxy {
  /** Number of replies by status, and of errors by code. */
  readonly results: Record<string, number> = {};
  sent = 0;
  #done = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(private readonly places: readonly Place[]) {}

  start(): void {
    this.#timer = setInterval(() => void this.#send(this.sent++), EVERY);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await eventually(() => this.#done === this.sent, 30_000);
  }

  async #send(turn: number): Promise<void> {
    let result = 'refused';
    for (let attempt = 0; result === 'refused' && attempt < PROCESSES; attempt += 1) {
      result = await (this.places[(turn + attempt) % PROCESSES] as Place).get();
    }
    this.results[result] = (this.results[result] ?? 0) + 1;
    this.#done += 1;
  }
}

describe.each(['express', 'fastify'] as const)('a rolling restart of %s', (kind) => {
  it(
    'fails no request, and each process ends by itself, also with a stream open',
    async () => {
      const places: Place[] = [];
      for (let count = 0; count < PROCESSES; count += 1) {
        const tenants = { acme: world.optionsOf('acme') };
        places.push(new Place({ kind, port: await freePort(), secrets: SECRETS, tenants }));
      }
      const proxy = new Proxy(places);
      const times: number[] = [];
      try {
        await Promise.all(places.map((place) => place.start()));
        proxy.start();
        for (let replacement = 1; replacement <= REPLACEMENTS; replacement += 1) {
          for (const place of places) {
            if (replacement === REPLACEMENTS && place === places.at(-1)) {
              await place.openStream();
            }
            times.push(await place.end());
            await place.start();
          }
        }
      } finally {
        await proxy.stop();
        await Promise.all(places.map((place) => place.kill()));
      }
      expect(proxy.results).toEqual({ 200: proxy.sent });
      expect(proxy.sent).toBeGreaterThan(REPLACEMENTS * 300);
      expect(times).toHaveLength(PROCESSES * REPLACEMENTS);
      expect(Math.max(...times)).toBeLessThan(END_WITHIN);
      // The stream was open until the module ended its calls.
      expect(times.at(-1)).toBeGreaterThan(9_000);
    },
    120_000 * REPLACEMENTS,
  );
});
