import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { DIST, ENTRIES } from './entries.mjs';

/** Removes declarations that no entry point leads to: they name internal types, and types of development dependencies. */
export function removeUnreachable() {
  const kept = new Set();
  for (const name of readdirSync(DIST, { recursive: true }).filter((path) => path.endsWith('.d.ts'))) {
    const file = join(DIST, name);
    writeFileSync(file, withoutUnusedImports(readFileSync(file, 'utf8')));
  }
  const visit = (file) => {
    if (kept.has(file) || !existsSync(file)) {
      return;
    }
    kept.add(file);
    for (const [, target] of readFileSync(file, 'utf8').matchAll(
      /(?:from|import|import\()\s*['"](\.[^'"\n]+)['"]/g,
    )) {
      visit(resolve(dirname(file), target.replace(/\.js$/, '.d.ts')));
    }
  };
  for (const file of Object.values(ENTRIES)) {
    visit(join(DIST, file.replace(/\.js$/, '.d.ts')));
  }
  for (const name of readdirSync(DIST, { recursive: true }).filter((path) => path.endsWith('.d.ts'))) {
    if (!kept.has(join(DIST, name))) {
      rmSync(join(DIST, name));
    }
  }
}

/** TypeScript leaves imports that only members marked `@internal` needed. */
function withoutUnusedImports(code) {
  const statement = /^import (?:type )?\{([^}]*)\} from '[^']*';\n/gm;
  const rest = code.replace(statement, '').replace(/\/\*[\s\S]*?\*\//g, '');
  return code.replace(statement, (whole, names) => {
    const used = names
      .split(',')
      .filter((name) => new RegExp(`\\b${name.trim().split(/ |\n/).at(-1)}\\b`).test(rest));
    return used.length === 0 ? '' : whole.replace(`{${names}}`, `{${used.join(',')} }`.replace('  }', ' }'));
  });
}
