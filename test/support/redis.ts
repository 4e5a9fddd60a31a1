import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describeWith, says, type Program } from './programs.js';
import { freePort } from './server.js';

const REDIS: Program = { name: 'redis-server', files: ['redis-server'], variable: 'REDIS_SERVER_PATH' };

/** A suite with a real Redis. Without one it is skipped, and a line says so; with `CI` set it fails. */
export function describeWithRedis(title: string, suite: (path: string) => void): void {
  describeWith(REDIS, title, suite);
}

/** A Redis of a test, on a free port of loopback, without persistence. */
export class RedisServer {
  #process: ChildProcess;
  private constructor(
    private readonly path: string,
    readonly port: number,
    private readonly folder: string,
    private readonly args: readonly string[],
    child: ChildProcess,
  ) {
    this.#process = child;
  }

  /** @param path of `redis-server` */
  static async start(path: string, flags: readonly string[] = []): Promise<RedisServer> {
    return RedisServer.#startIn(mkdtempSync(join(tmpdir(), 'exhibitor-redis-')), path, flags);
  }

  /** A sentinel that watches `main`, under the name `main`. */
  static async startSentinel(path: string, main: RedisServer): Promise<RedisServer> {
    const folder = mkdtempSync(join(tmpdir(), 'exhibitor-redis-'));
    const config = join(folder, 'sentinel.conf');
    writeFileSync(config, `sentinel monitor main 127.0.0.1 ${main.port} 1\n`);
    return RedisServer.#startIn(folder, path, ['--sentinel'], [config]);
  }

  static async #startIn(
    folder: string,
    path: string,
    flags: readonly string[],
    config: readonly string[] = [],
  ): Promise<RedisServer> {
    const port = await freePort();
    const options = ['--bind', '127.0.0.1', '--port', String(port), '--dir', folder, '--save', ''];
    const args = [...config, ...options, '--appendonly', 'no', ...flags];
    return new RedisServer(path, port, folder, args, await launch(path, args));
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** Stops answering. Connections stay open. */
  freeze(): void {
    this.#process.kill('SIGSTOP');
  }

  thaw(): void {
    this.#process.kill('SIGCONT');
  }

  /** Ends at once; everything stored is lost. */
  async kill(): Promise<void> {
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      const gone = once(this.#process, 'exit');
      this.#process.kill('SIGKILL');
      await gone;
    }
  }

  /** Starts again after {@link kill}, on the same port, empty. */
  async restart(): Promise<void> {
    this.#process = await launch(this.path, this.args);
  }

  async stop(): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

async function launch(path: string, args: readonly string[]): Promise<ChildProcess> {
  const child = spawn(path, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  await says(child, 'Ready to accept connections', '+monitor master');
  return child;
}
