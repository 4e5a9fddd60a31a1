import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type * as swc from '@swc/core';
import { nativeRequire } from '../support/native-require.js';
import { ROOT } from '../structure/readme.js';

const { transformFileSync }: typeof swc = nativeRequire('@swc/core');

/** The sources as JavaScript that plain Node runs, since child processes have no Jest. */
export class CompiledSources {
  private constructor(readonly folder: string) {}

  /** Compiles `lib/` and these files, given from the root of the repository. Takes about a second. */
  static create(programs: readonly string[]): CompiledSources {
    const folder = mkdtempSync(join(tmpdir(), 'exhibitor-fleet-'));
    // The sample imports the package by its name.
    const exports = {
      '.': './lib/index.js',
      './mirror': './lib/integrations/mirror/index.js',
      './testing': './lib/development/testing/index.js',
    };
    const manifest = { name: 'nestjs-exhibitor', type: 'module', exports };
    writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest));
    symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
    const sources = readdirSync(join(ROOT, 'lib'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => join('lib', name));
    for (const source of [...sources, ...programs]) {
      const target = join(folder, source.replace(/\.ts$/, '.js'));
      mkdirSync(dirname(target), { recursive: true });
      writeFileSync(target, transformFileSync(join(ROOT, source), { sourceMaps: false }).code);
    }
    return new CompiledSources(folder);
  }

  /** Path of a compiled program. */
  path(program: string): string {
    return join(this.folder, program.replace(/\.ts$/, '.js'));
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
