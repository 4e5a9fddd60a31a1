/**
 * Writes the package into `dist/` and the sample into `sample/dist/`, one file for each module, without types and type check.
 * It takes a second: for `npm start` and the benchmarks.
 */
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { transformFileSync } from '@swc/core';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** Removes the types of each module in a folder of the project, by `.swcrc`, as the tests do. */
function transpile(from, to) {
  const [source, target] = [join(ROOT, from), join(ROOT, to)];
  rmSync(target, { recursive: true, force: true });
  for (const name of readdirSync(source, { recursive: true }).filter((path) => path.endsWith('.ts'))) {
    const { code } = transformFileSync(join(source, name), {
      configFile: join(ROOT, '.swcrc'),
      sourceMaps: false,
    });
    const file = join(target, name.replace(/ts$/, 'js'));
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, code);
  }
}

transpile('lib', 'dist');
transpile('sample', 'sample/dist');
