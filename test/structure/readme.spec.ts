import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import ts from 'typescript';
import { HTTP_STATUS_BY_CODE } from '../../lib/index.js';
import { moduleSchema } from '../../lib/options/exhibitor-settings.js';
import { httpSchema, loginSchema, tenantSchema } from '../../lib/options/tenant-settings.js';
import { README, readmeHost, readmeSnippets, ROOT } from './readme.js';

describe('the README', () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(ROOT, 'test', '.readme-'));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  /** Compiles files with the project's own settings; returns their errors. `npm run typecheck` reports those of `lib/`. */
  function compile(files: readonly string[]): string[] {
    const config = ts.getParsedCommandLineOfConfigFile(
      join(ROOT, 'tsconfig.json'),
      {},
      {
        ...ts.sys,
        onUnRecoverableConfigFileDiagnostic: () => undefined,
      },
    );
    const program = ts.createProgram(files, { ...config?.options, noUnusedLocals: false });
    const sources = files.map((file) => program.getSourceFile(file));
    return [
      ...program.getConfigFileParsingDiagnostics(),
      ...program.getOptionsDiagnostics(),
      ...program.getGlobalDiagnostics(),
      ...sources.flatMap((source) => [
        ...program.getSyntacticDiagnostics(source),
        ...program.getSemanticDiagnostics(source),
      ]),
    ].map(
      ({ file, messageText }) => `${file?.fileName}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`,
    );
  }

  it('has snippets that compile', () => {
    const files = readmeSnippets().map((code, index) => {
      const file = join(folder, `snippet-${index}.ts`);
      writeFileSync(file, code);
      return file;
    });
    expect(files.length).toBeGreaterThanOrEqual(6);
    const broken = join(folder, 'broken.ts');
    writeFileSync(broken, "import { NoSuchThing } from 'nestjs-exhibitor';\nconsole.log(NoSuchThing);\n");
    // The broken file shows that the compiler checks.
    expect(compile([...files, broken])).toEqual([expect.stringContaining('NoSuchThing')]);
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
