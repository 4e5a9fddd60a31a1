/** Processes that are replaced under load, behind a proxy that repeats refused connections only. */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { ExhibitorSandbox } from '../../lib/testing/index.js';
import { startSandbox } from '../support/sandbox.js';
import { freePort } from '../support/server.js';
import { eventually, pause } from '../support/wait.js';
import { CompiledSources } from './compile.js';
import type { RestartConfig, RestartMessage } from './restart-process.js';

const PROGRAM = 'test/fleet/restart-process.ts';
const PROCESSES = 3;
const REPLACEMENTS = 3;
/** In ms: 200 requests a second. */
const EVERY = 5;
/** Within which a process ends by itself, in ms. */
const END_WITHIN = 15_000;

let sandbox: ExhibitorSandbox;
let sources: CompiledSources;
beforeAll(async () => {
  sandbox = await startSandbox();
  sources = CompiledSources.create([PROGRAM]);
});
afterAll(async () => {
  await sandbox?.stop();
  sources?.remove();
});

/** A place in the fleet: one process after the other on a port. */
class Place {
  #child: ChildProcess | undefined;
  /** When the processes here have taken the last connection of a client port from the kernel. Ports are used again. */
  readonly #accepted = new Map<number, number>();

  constructor(private readonly config: RestartConfig) {}

  get port(): number {
    return this.config.port;
  }

  /** False where the kernel had queued the connection and the process closed its listening socket first. */
  hasAccepted(clientPort: number, since: number): boolean {
    return (this.#accepted.get(clientPort) ?? 0) >= since;
  }

  async start(): Promise<void> {
    const child = fork(sources.path(PROGRAM), {
      env: { ...process.env, RESTART_CONFIG: JSON.stringify(this.config) },
      execArgv: ['--import', 'reflect-metadata'],
    });
    this.#child = child;
    await new Promise<void>((resolve, reject) => {
      child.on('message', (message: RestartMessage) => {
        if (message === 'listening') {
          resolve();
        } else {
          this.#accepted.set(message.accepted, performance.now());
        }
      });
      child.once('exit', (code, signal) => reject(new Error(`the process ended: ${signal ?? code}`)));
    });
  }

  /** Sends SIGTERM. Answers how long the process took to end. */
  async end(): Promise<number> {
    const began = performance.now();
    const gone = once(this.#child as ChildProcess, 'exit');
    this.#child?.kill('SIGTERM');
    await gone;
    return performance.now() - began;
  }

  kill(): void {
    this.#child?.kill('SIGKILL');
  }
}

/** Sends each request on a new connection to the next process; where that is refused, to the one after it. */
class Proxy {
  /** Number of replies by status, and of errors by code. */
  readonly results: Record<string, number> = {};
  sent = 0;
  done = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(private readonly places: readonly Place[]) {}

  start(): void {
    this.#timer = setInterval(() => void this.#count(), EVERY);
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await eventually(() => this.done === this.sent, 30_000);
  }

  async #count(): Promise<void> {
    const turn = this.sent;
    this.sent += 1;
    const result = await this.#send(turn);
    this.results[result] = (this.results[result] ?? 0) + 1;
    this.done += 1;
  }

  async #send(turn: number): Promise<string> {
    for (let attempt = 0; attempt < PROCESSES; attempt += 1) {
      const place = this.places[(turn + attempt) % PROCESSES] as Place;
      const result = await get(place);
      if (result !== 'refused') {
        return result;
      }
    }
    return 'refused by all';
  }
}

/** The status of a reply, or the code of the failure. */
function get(place: Place): Promise<string> {
  return new Promise((resolve) => {
    const began = performance.now();
    const sent = request(`http://127.0.0.1:${place.port}/events/world-2026`, { agent: false }, (response) => {
      response.resume().on('error', (error) => resolve(String(error)));
      response.on('end', () => resolve(String(response.statusCode)));
    });
    let clientPort: number | undefined;
    sent.on('socket', (socket) => socket.on('connect', () => (clientPort = socket.localPort)));
    sent.on('error', async (error: NodeJS.ErrnoException) => {
      // The message of the process that it took the connection may be under way.
      await pause(200);
      const isRefused = clientPort === undefined || !place.hasAccepted(clientPort, began);
      resolve(isRefused ? 'refused' : (error.code ?? String(error)));
    });
    sent.end();
  });
}

/** Opens an endless stream; resolves with the first event. Its end is not an error. */
function openStream(place: Place): Promise<void> {
  return new Promise((resolve, reject) => {
    request(`http://127.0.0.1:${place.port}/live`, { agent: false }, (response) => {
      response.on('error', () => {}).on('data', () => resolve());
    })
      .on('error', reject)
      .end();
  });
}

describe.each(['express', 'fastify'] as const)('a rolling restart of %s', (kind) => {
  it('fails no request, and each process ends by itself, also with a stream open', async () => {
    const { login: _, ...tenant } = sandbox.tenantOptions('acme');
    const places: Place[] = [];
    for (let count = 0; count < PROCESSES; count += 1) {
      places.push(new Place({ kind, port: await freePort(), tenant }));
    }
    const proxy = new Proxy(places);
    const times: number[] = [];
    try {
      await Promise.all(places.map((place) => place.start()));
      proxy.start();
      for (let replacement = 1; replacement <= REPLACEMENTS; replacement += 1) {
        for (const place of places) {
          if (replacement === REPLACEMENTS && place === places.at(-1)) {
            await openStream(place);
          }
          times.push(await place.end());
          await place.start();
        }
      }
      await proxy.stop();
    } finally {
      await proxy.stop();
      places.forEach((place) => place.kill());
    }
    expect(proxy.results).toEqual({ 200: proxy.sent });
    expect(proxy.sent).toBeGreaterThan(1_000);
    expect(times).toHaveLength(PROCESSES * REPLACEMENTS);
    expect(Math.max(...times)).toBeLessThan(END_WITHIN);
    // The stream was open until the module ended its calls.
    expect(times.at(-1)).toBeGreaterThan(9_000);
  });
});
