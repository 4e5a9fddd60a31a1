/** Packages that the build imports. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './tarball.js';

/** Files of the build, with its declarations. */
export function buildFiles(): string[] {
  return readdirSync(join(ROOT, 'dist'), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(js|d\.ts)$/.test(name))
    .map((name) => join(ROOT, 'dist', name));
}

/** Names of the packages that the build imports, also for types. */
export function importsOfBuild(): string[] {
  return importsOf(buildFiles());
}

/** Names of the packages that files import. */
export function importsOf(files: readonly string[]): string[] {
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
