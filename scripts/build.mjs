/**
 * Builds the package into `dist/` as it is published: declarations, and one file for each entry point, as ES modules and as
 * CommonJS for Jest. One file is a third of the size of one for each module, and loads in a third of the time.
 */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rollup } from '@rollup/wasm-node';
import ts from 'typescript';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const DIST = join(ROOT, 'dist');
const LIB = join(ROOT, 'lib');

const ENTRIES = [
  'index',
  'development/testing/index',
  'integrations/redis/index',
  'integrations/terminus/index',
  'development/doctor/index',
  'integrations/mirror/index',
  'integrations/opentelemetry/index',
];
const SANDBOX = join(LIB, 'development/sandbox/exhibitor-sandbox.ts');
const COMMAND_LINE = join(LIB, 'development/bin/nestjs-exhibitor.ts');
/** What command line and OpenTelemetry share with the host and read without Nest. They import nothing of `lib/`. */
const WITHOUT_NEST = ['digest', 'host-variables', 'json-values', 'urls'].map((name) =>
  join(LIB, `model/${name}.ts`),
);
const SANDBOX_FOR_JEST = join(LIB, 'development/sandbox/sandbox-for-jest.ts');

/** Peer dependencies that are ES modules in their newest majors: `jest-preset.cjs` replaces them by a CommonJS copy. */
const COPIES = { 'nestjs-axios': '@nestjs/axios', 'nestjs-passport': '@nestjs/passport' };

const { options } = ts.getParsedCommandLineOfConfigFile(join(ROOT, 'tsconfig.build.json'), {}, ts.sys);
const compilerOptions = { ...options, module: ts.ModuleKind.ESNext, removeComments: true };

rmSync(DIST, { recursive: true, force: true });
writeDeclarations();
const entries = Object.fromEntries(ENTRIES.map((name) => [name, join(LIB, `${name}.ts`)]));
// All that a host loads is one chunk, whatever the other entry points share with it.
const apart = ['development', 'integrations', 'index'];
const manualChunks = (file) => {
  if (WITHOUT_NEST.includes(file)) {
    return 'without-nest';
  }
  // The sandbox reads it without Nest.
  if (file === valibot) {
    return 'valibot';
  }
  const isOfHost = file.startsWith(LIB) && !apart.includes(relative(LIB, file).split(/[/.]/)[0]);
  return isOfHost ? 'exhibitor.module' : undefined;
};
const tslib = installed('tslib/tslib.es6.mjs');
// Its optional peer keeps TypeScript, of 24 MB, in installations without packages of development.
const valibot = installed('valibot');
await bundle(
  { ...entries, 'development/sandbox': SANDBOX, 'bin/nestjs-exhibitor': COMMAND_LINE },
  { tslib, valibot },
  { format: 'es', dir: DIST, chunkFileNames: 'chunks/[name].js', manualChunks },
);
const copies = Object.entries(COPIES).map(([file, name]) => [file, installed(name)]);
await bundle(
  { ...entries, ...Object.fromEntries(copies) },
  // Node loads the sandbox as ES modules, outside of Jest.
  { tslib, valibot, jose: installed('jose'), [SANDBOX]: SANDBOX_FOR_JEST },
  {
    format: 'cjs',
    dir: join(DIST, 'cjs'),
    entryFileNames: '[name].cjs',
    chunkFileNames: 'chunks/[name].cjs',
    manualChunks,
    esModule: true,
    interop: 'auto',
    dynamicImportInCjs: false,
  },
);
writeLicences(['jose', 'valibot', ...Object.values(COPIES)]);

/** The declarations that an entry point leads to. The others name internal types, and types of development dependencies. */
function writeDeclarations() {
  const tsc = installed('typescript/bin/tsc');
  const args = [tsc, '-p', 'tsconfig.build.json', '--emitDeclarationOnly'];
  execFileSync(process.execPath, args, { cwd: ROOT, stdio: 'inherit' });
  const roots = ENTRIES.map((name) => join(DIST, `${name}.d.ts`));
  const program = ts.createProgram(roots, { ...options, noLib: true });
  const reached = new Set(program.getSourceFiles().map(({ fileName }) => resolve(fileName)));
  for (const name of readdirSync(DIST, { recursive: true })) {
    if (name.endsWith('.d.ts') && !reached.has(join(DIST, name))) {
      rmSync(join(DIST, name));
    }
  }
}

/** Writes each input with what it imports by a relative path, or by a name or file that `replaced` maps to another. Comments are left out. */
async function bundle(input, replaced, output) {
  const modules = {
    name: 'modules',
    resolveId(id, importer) {
      const file = id.startsWith('.') ? resolve(dirname(importer), id) : id;
      const source = file.startsWith(LIB) ? file.replace(/\.js$/, '.ts') : file;
      const target = replaced[source] ?? source;
      return isAbsolute(target) ? target : { id: target, external: true };
    },
    transform: (code) => ({ code: ts.transpileModule(code, { compilerOptions }).outputText, map: null }),
  };
  const onwarn = (warning) => {
    // Helpers that @nestjs/passport contains look for a global `this`.
    if (warning.code !== 'THIS_IS_UNDEFINED') {
      throw new Error(warning.message);
    }
  };
  const build = await rollup({ input, plugins: [modules], onwarn, treeshake: { moduleSideEffects: false } });
  await build.write(output);
}

/** Licences of the packages that the files contain. */
function writeLicences(names) {
  const texts = names.map((name) => {
    const folder = join(ROOT, 'node_modules', name);
    const file = readdirSync(folder).find((candidate) => /^licen[cs]e(\.(md|txt))?$/i.test(candidate));
    return `${name}\n\n${readFileSync(join(folder, file), 'utf8').trim()}\n`;
  });
  writeFileSync(join(DIST, 'LICENSES.txt'), texts.join('\n----\n\n'));
}

/** The file of a package that an ES module imports. */
function installed(name) {
  return fileURLToPath(import.meta.resolve(name));
}
