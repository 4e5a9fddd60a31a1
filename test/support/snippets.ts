import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { filesOf, namedSnippets, ROOT } from '../structure/readme.js';

/** Loads snippets of a page of `docs/` as they are: each follows the comment with its name, or is a file of the page. They may import its files. */
export async function loadSnippets<T>(page: string, ...names: string[]): Promise<T> {
  const folder = mkdtempSync(join(ROOT, 'test', '.readme-'));
  try {
    const files = new Map(filesOf(`docs/${page}`).map(([path, code]) => [basename(path), code]));
    for (const [file, code] of files) {
      writeFileSync(join(folder, file), code);
    }
    const loaded: object[] = [];
    for (const name of names) {
      const file = `${name}.ts`;
      if (!files.has(file)) {
        writeFileSync(join(folder, file), namedSnippets(`docs/${page}`, name)[0]);
      }
      // One after the other: Jest cannot link two modules at once that import the same file.
      loaded.push((await import(join(folder, file))) as object);
    }
    return Object.assign({}, ...loaded) as T;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
