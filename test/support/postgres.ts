import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { describeWith, says } from './programs.js';
import { freePort } from './server.js';

/** A suite with a real PostgreSQL. Without one it is skipped, and a line says so; with `CI` set it fails. */
export function describeWithPostgres(title: string, suite: (path: string) => void): void {
  const elsewhere = newestOfDebian();
  const program = { name: 'postgres', files: ['postgres'], variable: 'POSTGRES_PATH', elsewhere };
  describeWith(program, title, suite);
}

/** A PostgreSQL of a test, on a free port of loopback, empty. It does not wait for the disk. */
export class PostgresServer {
  private constructor(
    private readonly process: ChildProcess,
    private readonly folder: string,
    readonly port: number,
  ) {}

  /** @param path of `postgres`; `initdb` is beside it */
  static async start(path: string): Promise<PostgresServer> {
    const program = realpathSync(path);
    const folder = mkdtempSync(join(tmpdir(), 'exhibitor-postgres-'));
    const user = unprivileged();
    if (user !== undefined) {
      chownSync(folder, user.uid, user.gid);
    }
    const initial = ['-D', folder, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync'];
    await promisify(execFile)(join(dirname(program), 'initdb'), initial, { cwd: folder, ...user });
    const port = await freePort();
    const settings = ['fsync=off', 'listen_addresses=127.0.0.1', 'unix_socket_directories='];
    const args = ['-D', folder, '-p', String(port), ...settings.flatMap((setting) => ['-c', setting])];
    const child = spawn(program, args, { cwd: folder, stdio: ['ignore', 'inherit', 'pipe'], ...user });
    await says(child, 'ready to accept connections');
    return new PostgresServer(child, folder, port);
  }

  /** For the option `connectionString` of `pg`. */
  get url(): string {
    return `postgres://postgres@127.0.0.1:${this.port}/postgres`;
  }

  async stop(): Promise<void> {
    const gone = once(this.process, 'exit');
    // The immediate shutdown, which ends the processes of its connections as well.
    this.process.kill('SIGQUIT');
    await gone;
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** PostgreSQL refuses to run as root. */
function unprivileged(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) {
    return undefined;
  }
  const users = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'));
  const [, , uid, gid] = users.find(([name]) => name === 'postgres' || name === 'nobody') ?? [];
  return { uid: Number(uid), gid: Number(gid) };
}

/** Path of `postgres` in Debian's package, which puts it outside of PATH. */
function newestOfDebian(): string | undefined {
  const folder = '/usr/lib/postgresql';
  const versions = existsSync(folder) ? readdirSync(folder).map(Number) : [];
  return versions.length === 0 ? undefined : join(folder, String(Math.max(...versions)), 'bin/postgres');
}
