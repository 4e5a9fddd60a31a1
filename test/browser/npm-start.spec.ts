import { spawn, type ChildProcess } from 'node:child_process';
import { cp, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Guest } from './guest.js';
import { COOKIE_SECRET } from '../support/host.js';
import { freePort, isFree } from '../support/server.js';
import { useSandbox } from '../support/lifetimes.js';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const PARTS = ['package.json', '.swcrc', 'lib', 'sample', 'scripts'];

/** A copy of the sources as after a clone and an install: nothing is built. */
class ProjectCopy {
  private readonly started: StartedProcess[] = [];

  private constructor(readonly folder: string) {}

  static async create(): Promise<ProjectCopy> {
    const folder = await mkdtemp(join(tmpdir(), 'exhibitor-sample-'));
    for (const part of PARTS) {
      await cp(join(PROJECT, part), join(folder, part), {
        recursive: true,
        filter: (path) => basename(path) !== 'dist',
      });
    }
    await symlink(join(PROJECT, 'node_modules'), join(folder, 'node_modules'), 'dir');
    return new ProjectCopy(folder);
  }

  /** Starts a command in its own process group, as a terminal does. */
  run(command: string, args: string[], env: Record<string, string>): StartedProcess {
    const process = new StartedProcess(this.folder, command, args, env);
    this.started.push(process);
    return process;
  }

  async remove(): Promise<void> {
    await Promise.all(this.started.map((process) => process.kill()));
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** A child process with its output. */
class StartedProcess {
  stdout = '';
  stderr = '';
  private readonly child: ChildProcess;
  /** Exit code, or the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals | null>;

  constructor(cwd: string, command: string, args: string[], env: Record<string, string>) {
    const { CI: _ci, ...inherited } = process.env;
    this.child = spawn(command, args, {
      cwd,
      detached: true,
      env: { ...inherited, NODE_ENV: 'development', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.child.stdout?.on('data', (chunk: Buffer) => (this.stdout += chunk.toString()));
    this.child.stderr?.on('data', (chunk: Buffer) => (this.stderr += chunk.toString()));
    this.ended = new Promise((resolve, reject) => {
      this.child.once('error', reject);
      this.child.once('close', (code, signal) => resolve(code ?? signal));
    });
  }

  /** Resolves when a line was printed; rejects with the output when the process exits before. */
  async printed(line: string): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const look = () => {
        if (this.stdout.includes(line)) {
          resolve();
        }
      };
      this.child.stdout?.on('data', look);
      look();
      void this.ended.then((end) =>
        reject(new Error(`ended with ${end} first:\n${this.stdout}${this.stderr}`)),
      );
    });
  }

  /** Sends a signal to this process only, as `kill` and process managers do. */
  signal(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  /** Sends a signal to the whole process group, as a terminal does on Ctrl-C. */
  signalGroup(signal: NodeJS.Signals): void {
    if (this.child.pid !== undefined) {
      process.kill(-this.child.pid, signal);
    }
  }

  async kill(): Promise<void> {
    try {
      this.signalGroup('SIGKILL');
    } catch {
      // The group has exited.
    }
    await this.ended.catch(() => undefined);
  }
}

const START = ['sample/dist/start.js'];
const sandbox = await useSandbox();

let project: ProjectCopy;
let ports: { PORT: string; SANDBOX_PORT: string };
let url: string;
let npm: StartedProcess;

beforeAll(async () => {
  project = await ProjectCopy.create();
  ports = { PORT: String(await freePort()), SANDBOX_PORT: String(await freePort()) };
  url = `http://127.0.0.1:${ports.PORT}`;
  npm = project.run('npm', ['start'], ports);
  await npm.printed(`Sample ready at ${url}\n`);
}, 120_000);
afterAll(() => project?.remove());

describe('npm start', () => {
  it('uses PORT and SANDBOX_PORT, and a person logs in and sees an exhibitor', async () => {
    const guest = new Guest();
    const home = await guest.open(url);
    expect(home.summary).toBe('200 Your booth at every event');
    const provider = await guest.click(home, 'My booth at World Industry Expo 2026');
    expect(new URL(provider.url).port).toBe(ports.SANDBOX_PORT);
    const booth = await guest.post(provider.url, { person: 'olga.one' });
    expect(booth.url).toBe(`${url}/acme/events/world-2026/mine`);
    expect(booth.text).toContain('Logged in as olga.one@example.com');
  });

  it.each(['PORT', 'SANDBOX_PORT'] as const)('prints one line when %s is taken, and exits', async (name) => {
    const free = { PORT: String(await freePort()), SANDBOX_PORT: String(await freePort()) };
    const sample = project.run('node', START, { ...free, [name]: ports[name] });
    expect(await sample.ended).toBe(1);
    expect(sample.stderr).toBe(`Port ${ports[name]} is already in use. Set ${name} to another one.\n`);
    expect(sample.stdout).toBe('');
  });

  it('exits cleanly on SIGTERM and frees its ports, although npm starts it through a shell', async () => {
    const before = npm.stderr;
    npm.signal('SIGTERM');
    expect(await npm.ended).toBe(0);
    expect(npm.stderr).toBe(before);
    await expect(isFree(Number(ports.PORT))).resolves.toBe(true);
    await expect(isFree(Number(ports.SANDBOX_PORT))).resolves.toBe(true);
  });

  it('exits with code 0 on Ctrl-C, which npm forwards a second time', async () => {
    const sample = project.run('node', START, ports);
    await sample.printed(`Sample ready at ${url}\n`);
    sample.signalGroup('SIGINT');
    sample.signalGroup('SIGINT');
    expect(await sample.ended).toBe(0);
    const activity = `http://127.0.0.1:${ports.SANDBOX_PORT}/sandbox`;
    expect(sample.stdout).toBe(`Sample ready at ${url}\nWhat it sends to the service: ${activity}\n`);
    expect(sample.stderr).toBe('');
  });
});

describe('npm run mirror', () => {
  it('prints which variables it lacks in one line, and exits', async () => {
    const mirror = project.run('node', ['sample/dist/mirror/start.js'], { DATABASE_URL: '', REDIS_URL: '' });
    expect(await mirror.ended).toBe(1);
    expect(mirror.stderr).toBe(
      'Set DATABASE_URL and REDIS_URL, for example DATABASE_URL=postgres://postgres@127.0.0.1:5432/postgres REDIS_URL=redis://127.0.0.1:6379\n',
    );
    expect(mirror.stdout).toBe('');
  });
});

/** Plain JavaScript, as a host runs it: no decorators, no transform. */
const SCRIPT = `
import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { firstValueFrom, lastValueFrom, toArray } from 'rxjs';
import { ExhibitorModule, ExhibitorsService, TokenService } from './dist/index.js';

const { tenant, secrets } = JSON.parse(process.env.HOST_OPTIONS);
const app = await NestFactory.create(ExhibitorModule.forRoot({ tenant, secrets }), { logger: ['fatal'] });
await app.listen(0, '127.0.0.1');
const exhibitors = app.get(ExhibitorsService);
const page = await firstValueFrom(exhibitors.list('boutique-2026'));
const all = await lastValueFrom(exhibitors.stream('world-2026').pipe(toArray()));
const mine = await firstValueFrom(exhibitors.lookup('world-2026', 'sam.several@example.com'));
const { tokenType } = await app.get(TokenService).getToken();
// A call that is still running must keep nothing open either.
const fault = { match: { operation: 'list' }, fault: { kind: 'delay', ms: 60_000 }, times: 1 };
await fetch(tenant.baseUrl + '/sandbox/faults', { method: 'POST', headers: { connection: 'close' }, body: JSON.stringify(fault) });
exhibitors.list('national-2026').subscribe({ error: () => undefined });
console.log(JSON.stringify([page.data.length, all.length, mine.length, tokenType]));
const tellHandles = () =>
  console.log('handles ' + JSON.stringify(process.getActiveResourcesInfo().filter((name) => !/TTY|Pipe|FS/.test(name))));
tellHandles();
await app.close();
// Node frees the handle of a server a moment after its close event.
await new Promise((resolve) => setTimeout(resolve, 50));
tellHandles();
`;

describe('a host in plain node with the built package', () => {
  it('works, and exits by itself after app.close(): no handle is left', async () => {
    await writeFile(join(project.folder, 'host.mjs'), SCRIPT);
    const options = { tenant: sandbox.tenantOptions('acme'), secrets: [COOKIE_SECRET] };
    const host = project.run('node', ['host.mjs'], { HOST_OPTIONS: JSON.stringify(options) });
    expect(await host.ended).toBe(0);
    expect(host.stderr).toBe('');
    const [result, before = '', after] = host.stdout.trim().split('\n');
    expect([result, after]).toEqual(['[7,1234,3,"Bearer"]', 'handles []']);
    // Otherwise the close would prove nothing.
    expect(before).toContain('TCPServerWrap');
  });
});
