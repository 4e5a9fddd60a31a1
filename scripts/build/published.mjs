import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { bundleModules } from './bundle-modules.mjs';
import { writeCommonJs } from './commonjs.mjs';
import { removeUnreachable } from './declarations.mjs';
import { DIST, ROOT } from './entries.mjs';

/** Builds the package as it is published: types, and one file for each entry point. */
export async function buildPublished() {
  const tsc = createRequire(import.meta.url).resolve('typescript/bin/tsc');
  rmSync(DIST, { recursive: true, force: true });
  execFileSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], { cwd: ROOT, stdio: 'inherit' });
  removeUnreachable();
  await bundleModules();
  await writeCommonJs();
}
