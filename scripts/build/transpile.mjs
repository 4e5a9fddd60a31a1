import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { transformFileSync } from '@swc/core';
import { ROOT } from './entries.mjs';

/** Writes the code of each module in a folder of the project without its types, by `.swcrc`, as the tests load it. */
export function transpile(from, to) {
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
