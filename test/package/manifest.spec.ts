import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { parseDocument } from 'yaml';
import { buildFiles, importsOf, importsOfBuild } from './imports.js';
import { manifest, pack, ROOT, type PackedFile } from './tarball.js';
import { workflows, type Job } from './workflows.js';

const DOCUMENTS = ['README.md', 'CHANGELOG.md', 'SECURITY.md', 'LICENSE'];

describe('the package', () => {
  let folder: string;
  let files: PackedFile[];
  let tarball: string;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'exhibitor-pack-'));
    ({ files, tarball } = await pack(folder));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it('contains the build, the Jest preset and documents only', () => {
    const foreign = files
      .map(({ path }) => path)
      .filter((path) => !/^dist\/.+\.(js|cjs|d\.ts)$/.test(path))
      .filter(
        (path) => !['package.json', 'jest-preset.cjs', 'dist/cjs/LICENSES.txt', ...DOCUMENTS].includes(path),
      );
    expect(foreign).toEqual([]);
    expect(files.map(({ path }) => path)).toEqual(
      expect.arrayContaining([
        'dist/index.js',
        'dist/index.d.ts',
        'dist/testing/index.js',
        'LICENSE',
        'README.md',
      ]),
    );
  });

  it('is at most 190 kB', () => {
    expect(statSync(tarball).size).toBeLessThanOrEqual(190_000);
  });

  it('has nothing that publint complains about', async () => {
    const { messages, pkg } = await publint({ pkgDir: ROOT, strict: true, pack: false });
    expect(messages.map((message) => formatMessage(message, pkg ?? {}, { color: false }))).toEqual([]);
  });

  it('has types for every way to resolve them (attw, profile esm-only)', async () => {
    const result = await checkPackage(createPackageFromTarballData(readFileSync(tarball)));
    if (!result.types) {
      throw new Error('no types were found');
    }
    const untyped = ['./jest-preset'];
    const problems = result.problems.filter(
      (problem) =>
        !('resolutionKind' in problem && problem.resolutionKind === 'node16-cjs') &&
        !('entrypoint' in problem && untyped.includes(problem.entrypoint)),
    );
    expect(problems).toEqual([]);
    expect(Object.keys(result.entrypoints)).toEqual(expect.arrayContaining(['.', './testing', './redis']));
  });

  it('has only declarations that need no development dependency', () => {
    const declared = new Set([
      ...Object.keys(manifest.dependencies),
      ...Object.keys(manifest.peerDependencies),
    ]);
    const foreign = importsOf(buildFiles().filter((file) => file.endsWith('.d.ts'))).filter(
      (name) =>
        name === 'oidc-provider' ||
        !(declared.has(name) || name.startsWith('node:') || builtinModules.includes(name)),
    );
    expect(foreign).toEqual([]);
  });

  it('links from the README to absolute addresses', () => {
    const links = [...readFileSync(join(ROOT, 'README.md'), 'utf8').matchAll(/\]\(([^)]+)\)/g)].map(
      ([, to]) => to,
    );
    expect(links.filter((to) => to?.startsWith('https://') !== true && to?.startsWith('#') !== true)).toEqual(
      [],
    );
  });

  it('declares everything it imports', () => {
    const declared = new Set([
      ...Object.keys(manifest.dependencies),
      ...Object.keys(manifest.peerDependencies),
    ]);
    const undeclared = importsOfBuild().filter(
      (name) => !declared.has(name) && !name.startsWith('node:') && !builtinModules.includes(name),
    );
    expect(undeclared).toEqual([]);
  });

  it('imports everything it declares', () => {
    const imported = new Set(importsOfBuild());
    // The decorators of Nest need it at run time, although no file imports it.
    const unused = [...Object.keys(manifest.dependencies), ...Object.keys(manifest.peerDependencies)].filter(
      (name) => !imported.has(name) && name !== 'reflect-metadata',
    );
    expect(unused).toEqual([]);
  });

  it('has no top-level await, so that CommonJS hosts can require it', () => {
    const waiting = buildFiles().filter((file) => /^(const .*= )?await /m.test(readFileSync(file, 'utf8')));
    expect(waiting).toEqual([]);
  });
});

describe('the workflows', () => {
  it('parse, as the forms of issues do', () => {
    const files = readdirSync(join(ROOT, '.github'), { recursive: true, encoding: 'utf8' }).filter((name) =>
      name.endsWith('.yml'),
    );
    expect(files.length).toBeGreaterThanOrEqual(7);
    const wrong = files.map((name) => {
      const { errors, warnings } = parseDocument(readFileSync(join(ROOT, '.github', name), 'utf8'));
      return [...errors, ...warnings].map(({ message }) => `${name}: ${message}`);
    });
    expect(wrong.flat()).toEqual([]);
  });

  it('run the cells of npm run test:matrix', () => {
    const { matrix } = workflows();
    const cells: unknown = JSON.parse(readFileSync(join(ROOT, 'test/matrix/cells.json'), 'utf8'));
    expect(matrix?.jobs['cell']?.strategy?.matrix).toEqual(cells);
    const [command] = commandsOf(matrix?.jobs['cell']).filter((run) => run.includes('test:matrix'));
    const given = Object.keys(Object(cells)).map((axis) => `${axis}=\${{ matrix.${axis} }}`);
    expect(command).toBe(`npm run test:matrix -- ${given.join(' ')}`);
    expect(commandsOf(matrix?.jobs['bun'])).toContain('npm run test:matrix -- bun');
  });

  it('run all checks, also before a release', () => {
    const { ci, release } = workflows();
    expect(commandsOf(ci?.jobs['check'])).toEqual(['.ci/run']);
    expect(commandsOf(release?.jobs['check'])).toEqual(['.ci/run']);
    expect(release?.jobs['publish']?.needs).toBe('check');
  });

  it('pin every action to a commit, and have a time limit and no permission that they do not need', () => {
    const jobs = Object.values(workflows()).flatMap((workflow) =>
      Object.values(workflow.jobs).map((job) => ({
        ...job,
        granted: job.permissions ?? workflow.permissions,
      })),
    );
    const unpinned = jobs
      .flatMap(({ steps }) => steps)
      .filter(({ uses = `a@${'0'.repeat(40)}` }) => !/@[0-9a-f]{40}$/.test(uses));
    expect(unpinned).toEqual([]);
    expect(jobs.filter((job) => job['timeout-minutes'] === undefined)).toEqual([]);
    const writers = jobs.filter(({ granted }) => Object.values(granted).includes('write'));
    expect(writers.map(({ name, granted }) => [name, granted])).toEqual([
      ['Version', { contents: 'write', 'pull-requests': 'write' }],
      ['Publish', { contents: 'write', 'id-token': 'write' }],
    ]);
  });
});

describe('npm run test:matrix', () => {
  const list = (...args: string[]): string[] =>
    execFileSync(process.execPath, ['test/matrix/run.mjs', 'list', ...args], { cwd: ROOT, stdio: 'pipe' })
      .toString()
      .trim()
      .split('\n');

  it('has a cell for every Node, Nest, adapter and package manager, and one for Bun', () => {
    const cells = list();
    expect(new Set(cells).size).toBe(3 * 2 * 2 * 2 + 1);
    expect(cells).toEqual(expect.arrayContaining(['node 20.19, nest 11, express, npm', 'bun 1']));
  });

  it('runs the cells that arguments choose', () => {
    expect(list('node=22,24', 'nest=12', 'adapter=fastify', 'manager=pnpm', 'bun')).toEqual([
      'node 22, nest 12, fastify, pnpm',
      'node 24, nest 12, fastify, pnpm',
      'bun 1',
    ]);
    expect(() => list('node=21')).toThrow(
      /node=21 chooses no cell. Choose from: node=20.19,22,24 nest=11,12/,
    );
  });
});

function commandsOf(job: Job | undefined): string[] {
  return (job?.steps ?? []).flatMap(({ run }) => run ?? []);
}
