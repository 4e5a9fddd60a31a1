import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../structure/readme.js';

/** Loads snippets of a page of `docs/` as they are: each follows the comment with its name. */
export async function loadSnippets<T>(page: string, ...names: string[]): Promise<T> {
  const text = readFileSync(join(ROOT, 'docs', page), 'utf8');
  const folder = mkdtempSync(join(ROOT, 'test', '.readme-'));
  try {
    const loaded = names.map(async (name) => {
      const code = new RegExp(`<!-- ${name} -->\\s*\`\`\`ts\\n([\\s\\S]*?)\`\`\``).exec(text)?.[1];
      if (code === undefined) {
        throw new Error(`docs/${page} has no ${name}`);
      }
      writeFileSync(join(folder, `${name}.ts`), code);
      return (await import(join(folder, `${name}.ts`))) as object;
    });
    return Object.assign({}, ...(await Promise.all(loaded))) as T;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
