import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { filesOf, PAGES, ROOT, snippetsOf } from '../structure/readme.js';

const run = promisify(execFile);

/** Not of `npm test`: the compiler takes ten seconds for the pages. */
describe('the README and the pages of docs', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(ROOT, 'test', '.readme-'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  /** Compiles the folder with the project's own settings, and answers the errors in its files. */
  async function compile(): Promise<string[]> {
    const settings = {
      extends: '../../tsconfig.json',
      compilerOptions: { noUnusedLocals: false },
      files: readdirSync(folder),
      // Not the whole project.
      include: [],
    };
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(settings));
    const script = join(ROOT, 'test/package/compile-snippets.mjs');
    const { stdout } = await run(process.execPath, [script, join(folder, 'tsconfig.json')]);
    return stdout.split('\n').filter((line) => line !== '');
  }

  it('have snippets that compile', async () => {
    // Tests of a host are in a folder beside `src`; here, all files are in one.
    const snippets = PAGES.flatMap(snippetsOf).map((code) => code.replaceAll("from '../src/", "from './"));
    snippets.forEach((code, index) => writeFileSync(join(folder, `snippet-${index}.ts`), code));
    expect(snippets.length).toBeGreaterThanOrEqual(30);
    // Under their names, since snippets import them. Those of the README, which is first, stand.
    PAGES.toReversed()
      .flatMap(filesOf)
      .forEach(([path, code]) => writeFileSync(join(folder, basename(path)), code));
    // What docs/mirror.md has a host copy.
    for (const name of ['copies.ts', 'postgres-mirror.ts']) {
      cpSync(join(ROOT, 'sample/mirror', name), join(folder, name));
    }
    // The broken file shows that the compiler checks.
    writeFileSync(
      join(folder, 'broken.ts'),
      "import { NoSuchThing } from 'nestjs-exhibitor';\nconsole.log(NoSuchThing);\n",
    );
    expect(await compile()).toEqual([expect.stringContaining('NoSuchThing')]);
  }, 120_000);
});
