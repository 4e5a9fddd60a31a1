import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

export const ROOT = join(import.meta.dirname, '../..');

interface Manifest {
  version: string;
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
  peerDependencies: Record<string, string>;
}

export const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Manifest;

/** Files of the tarball. */
export interface PackedFile {
  path: string;
}

/** Packs the project as for publishing. */
export async function pack(folder: string): Promise<{ tarball: string; files: PackedFile[] }> {
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', folder], { cwd: ROOT });
  // The build that `prepack` runs may print before the JSON.
  const report: unknown = JSON.parse(stdout.slice(stdout.search(/[[{]\s*["{]/)));
  const [packed] = Object.values(report as Record<string, { filename: string; files: PackedFile[] }>);
  if (packed === undefined) {
    throw new Error(`npm pack said: ${stdout}`);
  }
  return { tarball: join(folder, packed.filename), files: packed.files };
}

/** A folder outside the repository: a new one by default. */
export class Outside {
  constructor(readonly folder = mkdtempSync(join(tmpdir(), 'exhibitor-host-'))) {}

  /** Copies a folder of the repository here. */
  copy(from: string): void {
    cpSync(from, this.folder, { recursive: true });
  }

  write(name: string, content: string | object): void {
    const text = typeof content === 'string' ? content : JSON.stringify(content, null, 2);
    const file = join(this.folder, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }

  async run(command: string, args: string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
    try {
      // Variables that Jest sets for its own process are not for others.
      const { NODE_OPTIONS: _options, NODE_ENV: _env, JEST_WORKER_ID: _worker, ...inherited } = process.env;
      const { stdout, stderr } = await run(command, args, {
        cwd: this.folder,
        env: { ...inherited, ...env },
        maxBuffer: 1e8,
      });
      return stdout + stderr;
    } catch (error) {
      const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
      throw new Error(`${command} ${args.join(' ')} failed:\n${stdout}\n${stderr}`, { cause: error });
    }
  }

  /** The project of `nest new` for a major of Nest, before its packages are installed. */
  async scaffold(major: number): Promise<void> {
    const flags = ['--skip-install', '--skip-git', '--package-manager', 'npm'];
    await this.run('npx', ['--yes', `@nestjs/cli@${major}`, 'new', '.', ...flags, '--directory', '.']);
  }

  /** Changes a JSON file. */
  edit(name: string, change: (content: Record<string, unknown>) => object): void {
    const file = join(this.folder, name);
    this.write(name, change(JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>));
  }

  /** Installs packages; the registry is asked only for what npm's cache does not know. */
  install(...packages: string[]): Promise<string> {
    const quiet = ['--no-audit', '--no-fund', '--loglevel', 'error'];
    return this.run('npm', ['install', '--prefer-offline', ...quiet, ...packages]);
  }

  /** Version of a package, as installed. */
  versionOf(name: string): string {
    const file = join(this.folder, 'node_modules', name, 'package.json');
    return (JSON.parse(readFileSync(file, 'utf8')) as Manifest).version;
  }

  start(script: string, env: NodeJS.ProcessEnv): ChildProcess {
    return spawn(process.execPath, [script], {
      cwd: this.folder,
      env: { PATH: process.env['PATH'], ...env },
      stdio: 'pipe',
    });
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** `name@version` of development dependencies, as installed here. */
export function versions(...names: string[]): string[] {
  return names.map((name) => `${name}@${manifest.devDependencies[name] ?? manifest.peerDependencies[name]}`);
}

/** The peer dependencies, each in the lowest version that is accepted. */
export function lowestPeers(): Record<string, string> {
  return Object.fromEntries(
    Object.entries(manifest.peerDependencies).map(([name, range]) => {
      const [, major = '', minor = '0', patch = '0'] = /^\^(\d+)(?:\.(\d+))?(?:\.(\d+))?/.exec(range) ?? [];
      return [name, `${major}.${minor}.${patch}`];
    }),
  );
}
