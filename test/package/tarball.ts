import { execFile, spawn, type ChildProcess } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { eventually } from '../support/wait.js';

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

interface Packed {
  filename: string;
  files: PackedFile[];
}

/** Options of TypeScript for the host of a page. */
export const HOST_COMPILER_OPTIONS = {
  module: 'nodenext',
  target: 'ES2022',
  strict: true,
  experimentalDecorators: true,
  emitDecoratorMetadata: true,
  types: ['node'],
  rootDir: 'src',
  outDir: 'dist',
};

/** A folder of this run of Jest, which its configuration creates. */
const PACKED = process.env['PACKED'] ?? '';

/** Packs the project as for publishing. The first suite of a run does it, the others wait for it. */
export async function pack(): Promise<{ tarball: string; files: PackedFile[] }> {
  const report = join(PACKED, 'report.json');
  if (isFirst()) {
    const result = await packProject().catch((error: unknown) => ({ failure: String(error) }));
    writeFileSync(`${report}.new`, JSON.stringify(result));
    // It is complete when it has its name.
    renameSync(`${report}.new`, report);
  }
  await eventually(() => existsSync(report), 240_000);
  const { failure, filename, files } = JSON.parse(readFileSync(report, 'utf8')) as Packed & {
    failure?: string;
  };
  if (failure !== undefined) {
    throw new Error(failure);
  }
  return { tarball: join(PACKED, filename), files };
}

function isFirst(): boolean {
  try {
    mkdirSync(join(PACKED, 'packing'));
    return true;
  } catch {
    return false;
  }
}

async function packProject(): Promise<Packed> {
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', PACKED], { cwd: ROOT });
  // The build that `prepack` runs may print before the JSON.
  const report: unknown = JSON.parse(stdout.slice(stdout.search(/[[{]\s*["{]/)));
  const [packed] = Object.values(report as Record<string, Packed>);
  if (packed === undefined) {
    throw new Error(`npm pack said: ${stdout}`);
  }
  return packed;
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
