import { spawn, type ChildProcess } from 'node:child_process';
import { cp, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const PARTS = ['package.json', '.swcrc', 'lib', 'sample', 'scripts'];

/** A copy of the sources as after a clone and an install: nothing is built. */
export class ProjectCopy {
  private readonly started: StartedProcess[] = [];

  private constructor(readonly folder: string) {}

  static async create(): Promise<ProjectCopy> {
    const folder = await mkdtemp(join(tmpdir(), 'exhibitor-sample-'));
    for (const part of PARTS) {
      await cp(join(PROJECT, part), join(folder, part), { recursive: true, filter: isSource });
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

function isSource(path: string): boolean {
  return basename(path) !== 'dist';
}

/** A child process with its output. */
export class StartedProcess {
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
