import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { filesOf, namedSnippets, ROOT } from '../structure/readme.js';

/** Loads snippets of a page of `docs/` as they are: each follows the comment with its name. They may import the files of the page. */
export async function loadSnippets<T>(page: string, ...names: string[]): Promise<T> {
  const folder = mkdtempSync(join(ROOT, 'test', '.readme-'));
  try {
    for (const [path, code] of filesOf(`docs/${page}`)) {
      writeFileSync(join(folder, basename(path)), code);
    }
    const loaded: object[] = [];
    for (const name of names) {
      writeFileSync(join(folder, `${name}.ts`), namedSnippets(`docs/${page}`, name)[0]);
      // One after the other: Jest cannot link two modules at once that import the same file.
      loaded.push((await import(join(folder, `${name}.ts`))) as object);
    }
    return Object.assign({}, ...loaded) as T;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
