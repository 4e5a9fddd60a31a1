import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { HTTP_STATUS_BY_CODE } from '../../lib/index.js';
import { moduleSchema } from '../../lib/options/exhibitor-settings.js';
import { httpSchema, loginSchema, tenantSchema } from '../../lib/options/tenant-settings.js';
import { README, readmeHost, readmeSnippets, ROOT } from './readme.js';

const run = promisify(execFile);

describe('the README', () => {
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
    const script = join(ROOT, 'test/structure/compile-snippets.mjs');
    const { stdout } = await run(process.execPath, [
      '--max-semi-space-size=64',
      script,
      join(folder, 'tsconfig.json'),
    ]);
    return stdout.split('\n').filter((line) => line !== '');
  }

  it('has snippets that compile', async () => {
    const snippets = readmeSnippets();
    snippets.forEach((code, index) => writeFileSync(join(folder, `snippet-${index}.ts`), code));
    expect(snippets.length).toBeGreaterThanOrEqual(6);
    // The broken file shows that the compiler checks.
    writeFileSync(
      join(folder, 'broken.ts'),
      "import { NoSuchThing } from 'nestjs-exhibitor';\nconsole.log(NoSuchThing);\n",
    );
    expect(await compile()).toEqual([expect.stringContaining('NoSuchThing')]);
  }, 120_000);

  it('has a complete host of 40 lines', () => {
    const lines = readmeHost()
      .split('\n')
      .filter((line) => line.trim() !== '');
    expect(lines.length).toBeLessThanOrEqual(40);
  });

  it('names every error code with its status', () => {
    const documented = [...README.matchAll(/^\| `([a-z_]+)` *\|.*\| (\d{3}) +\|$/gm)].map(
      ([, code, status]) => [code, Number(status)],
    );
    expect(Object.fromEntries(documented)).toEqual(HTTP_STATUS_BY_CODE);
  });

  it('names every reason of a failed login', () => {
    const source = readFileSync(join(ROOT, 'lib/errors/login-failed.error.ts'), 'utf8');
    const reasons = [...source.matchAll(/^ {2}\| '(\w+)'/gm)].map(([, reason = '']) => reason);
    expect(reasons.length).toBeGreaterThan(20);
    const missing = reasons.filter((reason) => !new RegExp(`^\\| [^|]*\`${reason}\``, 'm').test(README));
    expect(missing).toEqual([]);
  });

  it('names every option', () => {
    const options = [moduleSchema, httpSchema, tenantSchema, loginSchema].flatMap(({ entries }) =>
      Object.keys(entries),
    );
    const missing = options.filter((name) => !new RegExp(`^\\|.*\`(${name})[\`(]`, 'm').test(README));
    expect(missing).toEqual([]);
  });
});

describe('the documents', () => {
  const DOCUMENTS = [
    'README.md',
    'CONTRIBUTING.md',
    'SECURITY.md',
    ...readdirSync(join(ROOT, 'docs')).map((name) => `docs/${name}`),
  ];
  /** Files of a host, and files of the build. */
  const OF_OTHERS = new Set(['test/jest-e2e.json', 'sample/dist/start.js']);
  const specs = readdirSync(join(ROOT, 'test'), { recursive: true, encoding: 'utf8' });

  /** Paths and names of specs between backticks, and targets of links to this repository. */
  function filesIn(document: string): string[] {
    const text = readFileSync(join(ROOT, document), 'utf8').replaceAll(/^```[\s\S]*?^```/gm, '');
    const words = [...text.matchAll(/`([^`\n]+)`/g)].flatMap(([, code = '']) => code.split(/[\s,;()]+/));
    const named = words.filter((word) =>
      /^((lib|test|docs|sample|scripts|\.ci)\/|[\w-]+\.spec\.ts$)/.test(word),
    );
    const links = [...text.matchAll(/\]\((?!#)([^)#\s]+)/g)].map(([, target = '']) => target);
    const own = links.flatMap((target) => {
      const inRepository = /\/blob\/main\/(.+)/.exec(target)?.[1];
      return inRepository ?? (/^\w+:/.test(target) ? [] : join(dirname(document), target));
    });
    return [...named, ...own].filter((file) => !OF_OTHERS.has(file));
  }

  function exists(file: string): boolean {
    if (file.endsWith('.spec.ts') && !file.includes('/')) {
      return specs.some((spec) => basename(spec) === file);
    }
    const [folder = '', pattern] = file.split('*');
    return pattern === undefined
      ? existsSync(join(ROOT, file))
      : specs.some((spec) => `test/${spec}`.startsWith(folder) && spec.endsWith(pattern));
  }

  it.each(DOCUMENTS)('%s names files that exist', (document) => {
    expect(filesIn(document).filter((file) => !exists(file))).toEqual([]);
  });

  it('name files at all', () => {
    expect(DOCUMENTS.flatMap(filesIn).length).toBeGreaterThan(200);
    expect(['lib/index.ts', 'readme.spec.ts', 'test/oidc/*.spec.ts'].map(exists)).toEqual([true, true, true]);
    expect(['lib/none.ts', 'none.spec.ts', 'test/none/*.spec.ts'].map(exists)).toEqual([false, false, false]);
  });
});
