import { readdirSync, readFileSync, statSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { join } from 'node:path';
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { beforeAll, describe, expect, it } from '@jest/globals';
import { ROOT } from '../structure/readme.js';
import { manifest, pack, type Packed } from './tarball.js';

const DOCUMENTS = ['README.md', 'CHANGELOG.md', 'SECURITY.md', 'LICENSE', 'llms.txt'];
/** Files of the sample that docs/mirror.md has a host copy. */
const COPIED = ['sample/mirror/copies.ts', 'sample/mirror/postgres-mirror.ts'];
const declared = [...Object.keys(manifest.dependencies), ...Object.keys(manifest.peerDependencies)];

const OTHERS = ['package.json', 'jest-preset.cjs', 'dist/LICENSES.txt'];

describe('the package', () => {
  let files: Packed['files'];
  let tarball: string;
  beforeAll(async () => {
    ({ files, tarball } = await pack());
  });

  it('contains the build, the Jest preset, documents and files to copy only', () => {
    const foreign = files
      .map(({ path }) => path)
      .filter((path) => !/^dist\/.+\.(js|cjs|d\.ts)$|^docs\/[\w-]+\.(md|json)$/.test(path))
      .filter((path) => ![...OTHERS, ...DOCUMENTS, ...COPIED].includes(path));
    expect(foreign).toEqual([]);
    expect(files.map(({ path }) => path)).toEqual(
      expect.arrayContaining([
        'dist/index.js',
        'dist/index.d.ts',
        'dist/development/testing/index.js',
        'docs/README.md',
        'LICENSE',
        'README.md',
        ...COPIED,
      ]),
    );
  });

  // The documents take 120 kB of it, and valibot 25 kB, which spares hosts the 24 MB of its optional peer TypeScript.
  it('is at most 480 kB', () => {
    expect(statSync(tarball).size).toBeLessThanOrEqual(480_000);
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
    expect(Object.keys(result.entrypoints)).toEqual(
      expect.arrayContaining([
        '.',
        './testing',
        './redis',
        './terminus',
        './doctor',
        './mirror',
        './opentelemetry',
      ]),
    );
  });

  it('declares everything it imports, and has no declarations that need oidc-provider', () => {
    const undeclared = importsOf(buildFiles()).filter(
      (name) => !declared.includes(name) && !name.startsWith('node:') && !builtinModules.includes(name),
    );
    // Of the project: as a peer, even an optional one, it would stay in production. `zod` is in the text that `schema` writes.
    expect(new Set(undeclared)).toEqual(new Set(['oidc-provider', 'zod']));
    expect(importsOf(buildFiles().filter((file) => file.endsWith('.d.ts')))).not.toContain('oidc-provider');
  });

  it('imports everything it declares', () => {
    const imported = new Set(importsOf(buildFiles()));
    // Decorators of Nest need reflect-metadata at run time.
    const unused = declared.filter((name) => !imported.has(name) && name !== 'reflect-metadata');
    expect(unused).toEqual([]);
  });
});

function buildFiles(): string[] {
  return readdirSync(join(ROOT, 'dist'), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(js|d\.ts)$/.test(name))
    .map((name) => join(ROOT, 'dist', name));
}

/** Names of the packages that files import, also for types. */
function importsOf(files: readonly string[]): string[] {
  const specifiers = files.flatMap((file) =>
    [...readFileSync(file, 'utf8').matchAll(/(?:from|import|import\(|require\()\s*['"]([^'"\n]+)['"]/g)].map(
      ([, name = '']) => name,
    ),
  );
  const packages = specifiers
    .filter((name) => !name.startsWith('.') && !name.startsWith('nestjs-exhibitor'))
    .map((name) =>
      name
        .split('/')
        .slice(0, name.startsWith('@') ? 2 : 1)
        .join('/'),
    );
  return [...new Set(packages)];
}
