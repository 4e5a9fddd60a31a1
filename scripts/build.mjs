/**
 * Builds the package into `dist/`.
 *
 *     node scripts/build.mjs            as it is published
 *     node scripts/build.mjs --quick    one file per module, no types and no type check: for the sample and the benchmarks
 */
import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { bundleModules } from './build/bundle-modules.mjs';
import { removeUnreachable } from './build/declarations.mjs';
import { DIST, ROOT } from './build/entries.mjs';
import { writeCommonJs } from './build/commonjs.mjs';

const isQuick = process.argv.includes('--quick');
const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
rmSync(DIST, { recursive: true, force: true });
const quickly = isQuick ? ['--noCheck', '--declaration', 'false', '--importHelpers', 'false'] : [];
execFileSync(process.execPath, [tsc, '-p', 'tsconfig.build.json', ...quickly], {
  cwd: ROOT,
  stdio: 'inherit',
});
if (!isQuick) {
  removeUnreachable();
  await bundleModules();
  await writeCommonJs();
}
