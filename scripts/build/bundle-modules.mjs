import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { rollup } from '@rollup/wasm-node';
import ts from 'typescript';
import { DIST, ENTRIES, REMOTE_SANDBOX, SANDBOX, WORKER } from './entries.mjs';

const TSLIB = join(dirname(createRequire(import.meta.url).resolve('tslib')), 'tslib.es6.mjs');

/**
 * One file for each entry point instead of one for each module: a third of the size, and a third of the time to load. They
 * import each other, so that there is one copy of each class. Comments are left out; the declarations have them.
 */
export async function bundleModules() {
  const shared = [...Object.values(ENTRIES), SANDBOX, WORKER].map((name) => join(DIST, name));
  const outputs = [];
  for (const file of shared) {
    const code = await bundle(file, 'es', shared);
    outputs.push([file, code]);
  }
  const remote = await bundle(join(DIST, REMOTE_SANDBOX), 'cjs', shared);
  for (const name of readdirSync(DIST, { recursive: true }).filter((path) => path.endsWith('.js'))) {
    rmSync(join(DIST, name));
  }
  for (const [file, code] of [...outputs, [join(DIST, 'testing/sandbox/remote-sandbox.cjs'), remote]]) {
    writeFileSync(file, code);
  }
}

/** The code of a module and of what it imports by a relative path, but for the modules in `shared`. */
async function bundle(file, format, shared) {
  const build = await rollup({
    input: file,
    plugins: [
      {
        name: 'entries',
        resolveId(source, importer) {
          if (importer === undefined) {
            return source;
          }
          // The helpers of decorators, once for all modules.
          if (source === 'tslib') {
            return TSLIB;
          }
          const target = source.startsWith('.') ? resolve(dirname(importer), source) : undefined;
          if (target === undefined) {
            return { id: source, external: true };
          }
          return { id: target, external: shared.includes(target) ? 'relative' : false };
        },
        transform: (code) => ({ code: withoutComments(code), map: null }),
      },
    ],
    onwarn(warning) {
      throw new Error(warning.message);
    },
  });
  const { output } = await build.generate({ file, format });
  return output[0].code;
}

export function withoutComments(code) {
  const compilerOptions = {
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.ESNext,
    removeComments: true,
  };
  return ts.transpileModule(code, { compilerOptions }).outputText;
}
