import { execFile, spawn, type ChildProcess } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { readmeInstall, ROOT, sandboxInstall } from '../structure/readme.js';
import { eventually } from '../support/wait.js';

const run = promisify(execFile);

interface Manifest {
  version: string;
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
  peerDependencies: Record<string, string>;
}

export const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Manifest;

/** A folder of this run of Jest, which its configuration creates. */
const PACKED = process.env['PACKED'] ?? '';

/** Work of the whole run, whose result is JSON: the first suite that asks does it, and the others wait. */
async function once<T>(name: string, work: () => Promise<T>): Promise<T> {
  const report = join(PACKED, `${name}.json`);
  if (isFirst(name)) {
    const done = await work().then(
      (result) => ({ result }),
      (error: unknown) => ({ failure: String(error) }),
    );
    writeFileSync(`${report}.new`, JSON.stringify(done));
    // It is complete when it has its name.
    renameSync(`${report}.new`, report);
  }
  await eventually(() => existsSync(report), 280_000);
  const { result, failure } = JSON.parse(readFileSync(report, 'utf8')) as { result: T; failure?: string };
  if (failure !== undefined) {
    throw new Error(failure);
  }
  return result;
}

function isFirst(name: string): boolean {
  try {
    mkdirSync(join(PACKED, `${name}.begun`));
    return true;
  } catch {
    return false;
  }
}

/** The packed project, and the files that it has. */
export interface Packed {
  tarball: string;
  files: { path: string }[];
}

/** Packs the project as for publishing. */
export function pack(): Promise<Packed> {
  return once('pack', async () => {
    const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', PACKED], { cwd: ROOT });
    // The build that `prepack` runs may print before the JSON.
    const report: unknown = JSON.parse(stdout.slice(stdout.search(/[[{]\s*["{]/)));
    const [packed] = Object.values(report as Record<string, { filename: string; files: Packed['files'] }>);
    if (packed === undefined) {
      throw new Error(`npm pack said: ${stdout}`);
    }
    return { tarball: join(PACKED, packed.filename), files: packed.files };
  });
}

/** What hosts of several suites need beside the packages of the README. */
const FURTHER = {
  11: ['@nestjs/terminus@11', '@nestjs/platform-fastify@11'],
  12: [
    '@nestjs/terminus@12',
    '@nestjs/platform-fastify@12',
    '@nestjs/observe@0.3',
    ...versions('@nestjs/bullmq', 'bullmq', 'ioredis', 'pg', '@types/pg'),
  ],
};

/** A project of `nest new` for a major of Nest, in which the commands of the README have been run. */
export async function stockProject(nest: 11 | 12): Promise<Outside> {
  const folder = await once(`nest-${nest}`, async () => {
    const project = new Outside(join(PACKED, `project-${nest}`));
    const flags = ['--skip-install', '--skip-git', '--package-manager', 'npm'];
    const scaffold = ['--yes', `@nestjs/cli@${nest}`, 'new', '.', ...flags, '--directory', '.'];
    const [{ tarball }] = await Promise.all([pack(), project.run('npx', scaffold)]);
    for (const command of [readmeInstall(nest), sandboxInstall()]) {
      const [npm = '', ...args] = command.map((word) => (word === 'nestjs-exhibitor' ? tarball : word));
      await project.run(npm, args, { npm_config_prefer_offline: 'true' });
    }
    // npm refuses a later package where the peers of an earlier one are too new for it.
    await project.install(...FURTHER[nest]);
    return project.folder;
  });
  return new Outside(folder);
}

/** A folder outside the repository: a new one by default. */
export class Outside {
  constructor(readonly folder = mkdtempSync(join(tmpdir(), 'exhibitor-host-'))) {
    mkdirSync(folder, { recursive: true });
  }

  /** Copies a folder of the repository here. */
  copy(from: string): void {
    cpSync(join(ROOT, from), this.folder, { recursive: true });
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

  /** Uses the packages of another folder. */
  link({ folder }: Outside): void {
    symlinkSync(join(folder, 'node_modules'), join(this.folder, 'node_modules'));
  }

  compile(...flags: string[]): Promise<string> {
    return this.run(process.execPath, ['node_modules/typescript/bin/tsc', '-p', '.', ...flags]);
  }

  /** Version of a package, as installed. */
  versionOf(name: string): string {
    const file = join(this.folder, 'node_modules', name, 'package.json');
    return (JSON.parse(readFileSync(file, 'utf8')) as Manifest).version;
  }

  start(args: readonly string[], env: NodeJS.ProcessEnv): ChildProcess {
    return spawn(process.execPath, args, {
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
