/**
 * The CommonJS form of the package in `dist/cjs/`, for `jest-preset.cjs`. The tarball does not contain the code twice: a file
 * here reads the ES module beside it, and runs it with `require` in place of its imports and exports.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { rollup } from '@rollup/wasm-node';
import ts from 'typescript';
import { withoutComments } from './bundle-modules.mjs';
import { DIST, ENTRIES, SANDBOX } from './entries.mjs';

const require = createRequire(import.meta.url);
const FOLDER = join(DIST, 'cjs');

/** ES modules that a CommonJS host may have; the preset maps them where it has. */
const MAPPED = ['@nestjs/axios', '@nestjs/passport'];

export async function writeCommonJs() {
  mkdirSync(FOLDER);
  const usedOfJose = new Set();
  for (const [name, file] of Object.entries(ENTRIES)) {
    writeFileSync(join(FOLDER, `${name}.cjs`), toCommonJs(file, usedOfJose));
  }
  writeFileSync(join(FOLDER, 'run.cjs'), RUN);
  await copy('jose', `export { ${[...usedOfJose].join(', ')} } from 'jose';`);
  for (const name of MAPPED) {
    await copy(name, `export * from '${name}';`);
  }
  const licenses = ['jose', ...MAPPED].map((name) => `${name}\n\n${licenseOf(name)}\n`);
  writeFileSync(join(FOLDER, 'LICENSES.txt'), licenses.join('\n----\n\n'));
}

/** The file that runs an ES module as CommonJS. */
function toCommonJs(file, usedOfJose) {
  const code = readFileSync(join(DIST, file), 'utf8');
  const { statements } = ts.createSourceFile(file, code, ts.ScriptTarget.ES2022, true);
  const imports = statements.filter(ts.isImportDeclaration);
  const exports = statements.filter(ts.isExportDeclaration);
  const [own, ...others] = exports.filter(({ moduleSpecifier }) => moduleSpecifier === undefined);
  const reExports = exports.filter(({ moduleSpecifier }) => moduleSpecifier !== undefined);
  const head = [...imports, ...reExports];
  const body = statements.filter((statement) => !head.includes(statement) && statement !== own);
  const first = Math.max(0, ...head.map(({ end }) => end));
  const last = own?.getStart() ?? code.length;
  const isSplit = body.every(({ pos, end }) => pos >= first && end <= last);
  if (!isSplit || others.length > 0 || code.includes('import.meta')) {
    throw new Error(`${file} is not imports, code and exports, one after the other`);
  }
  for (const { moduleSpecifier, importClause } of imports) {
    if (moduleSpecifier.text === 'jose') {
      importClause.namedBindings.elements.forEach((one) =>
        usedOfJose.add((one.propertyName ?? one.name).text),
      );
    }
  }
  const dynamic = dynamicImports(body);
  for (const { specifier, names } of dynamic) {
    if (specifier === 'jose') {
      names.forEach((name) => usedOfJose.add(name));
    }
  }
  const exported = [
    ...(own?.exportClause.elements ?? []).map((one) => member(one, (one.propertyName ?? one.name).text)),
    ...reExports.flatMap(({ moduleSpecifier, exportClause }) =>
      exportClause.elements.map((one) =>
        member(
          one,
          `require('${targetOf(moduleSpecifier.text, file)}').${(one.propertyName ?? one.name).text}`,
        ),
      ),
    ),
  ];
  const parts = {
    file: `../${file}`,
    length: code.length,
    first,
    last,
    lines: code.slice(0, first).split('\n').length - 1,
    before: imports.map((statement) => toRequire(statement, file)).join(' '),
    dynamic: Object.fromEntries(
      dynamic.map(({ text, specifier }) => [text, `load(${JSON.stringify(targetOf(specifier, file))})`]),
    ),
    after: `Object.assign(exports, { ${exported.join(', ')} });`,
  };
  return `'use strict';
// Runs ../${file} as CommonJS, for Jest.
Object.defineProperty(exports, '__esModule', { value: true });
require('./run.cjs')(${JSON.stringify(parts, null, 2)}, __dirname, exports, require);
`;
}

/** Each `import()` with its text; of jose also the names, which must be taken from it at once. */
function dynamicImports(statements) {
  const found = [];
  const visit = (node) => {
    if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      const specifier = node.arguments[0].text;
      const bound = node.parent.parent;
      const isBound = ts.isVariableDeclaration(bound) && ts.isObjectBindingPattern(bound.name);
      if (specifier === 'jose' && !isBound) {
        throw new Error("write: const { … } = await import('jose')");
      }
      const names = isBound ? bound.name.elements.map((one) => (one.propertyName ?? one.name).text) : [];
      found.push({ text: node.getText(), specifier, names });
    }
    ts.forEachChild(node, visit);
  };
  statements.forEach(visit);
  return found;
}

function member({ name }, value) {
  return name.text === value ? value : `${name.text}: ${value}`;
}

/** Runs a file as described by `toCommonJs`. */
const RUN = `'use strict';
const { readFileSync } = require('node:fs');
const { join } = require('node:path');
const { pathToFileURL } = require('node:url');

module.exports = (parts, folder, exports, require) => {
  const file = join(folder, parts.file);
  const code = readFileSync(file, 'utf8');
  if (code.length !== parts.length) {
    throw new Error(file + ' was changed after the package was built');
  }
  let body = code.slice(parts.first, parts.last);
  for (const [text, loading] of Object.entries(parts.dynamic)) {
    body = body.replaceAll(text, loading);
  }
  const load = async (name) => {
    const loaded = require(name);
    return loaded.__esModule ? loaded : Object.create(loaded, { default: { value: loaded } });
  };
  const text = [
    "'use strict'; " + parts.before,
    // The line numbers of errors are those of the file: a function begins with two lines of its own.
    '\\n'.repeat(Math.max(0, parts.lines - 2)),
    body,
    parts.after,
    '\\n//# sourceURL=' + pathToFileURL(file),
  ];
  new Function('exports', 'require', 'load', text.join(''))(exports, require, load);
};
`;

function toRequire({ moduleSpecifier, importClause }, file) {
  const required = `require(${JSON.stringify(targetOf(moduleSpecifier.text, file))})`;
  if (importClause === undefined) {
    return `${required};`;
  }
  const { name, namedBindings } = importClause;
  const parts = [];
  if (name !== undefined) {
    parts.push(`const ${name.text} = ${required};`);
  }
  if (namedBindings !== undefined && ts.isNamespaceImport(namedBindings)) {
    parts.push(`const ${namedBindings.name.text} = ${required};`);
  } else if (namedBindings !== undefined) {
    const names = namedBindings.elements.map((one) =>
      one.propertyName === undefined ? one.name.text : `${one.propertyName.text}: ${one.name.text}`,
    );
    parts.push(`const { ${names.join(', ')} } = ${required};`);
  }
  return parts.join(' ');
}

/** What is required instead of an imported module. */
function targetOf(specifier, file) {
  if (specifier === 'jose') {
    return './jose.cjs';
  }
  if (!specifier.startsWith('.')) {
    return specifier;
  }
  const target = resolve(DIST, dirname(file), specifier);
  if (target === join(DIST, SANDBOX)) {
    return '../testing/sandbox/remote-sandbox.cjs';
  }
  const [name] = Object.entries(ENTRIES).find(([, other]) => join(DIST, other) === target) ?? [];
  if (name === undefined) {
    throw new Error(`${file} imports ${specifier}, which is no entry point`);
  }
  return `./${name}.cjs`;
}

/** A package as one CommonJS file, without what `code` does not export. */
async function copy(name, code) {
  const build = await rollup({
    input: 'entry',
    plugins: [
      {
        name: 'packages',
        resolveId(source, importer) {
          if (source === 'entry') {
            return source;
          }
          if (source === name) {
            return require.resolve(name);
          }
          return source.startsWith('.') ? resolve(dirname(importer), source) : { id: source, external: true };
        },
        load: (id) => (id === 'entry' ? code : undefined),
        transform: (text) => ({ code: withoutComments(text), map: null }),
      },
    ],
    onwarn({ code: reason, message }) {
      // The helpers of decorators ask for a global `this`, and do without.
      if (reason !== 'THIS_IS_UNDEFINED') {
        throw new Error(message);
      }
    },
  });
  const { output } = await build.generate({ format: 'cjs', interop: 'auto' });
  writeFileSync(join(FOLDER, `${fileNameOf(name)}.cjs`), output[0].code);
}

/** `@nestjs/axios` → `nestjs-axios` */
function fileNameOf(name) {
  return name.replace('@', '').replace('/', '-');
}

function licenseOf(name) {
  for (let folder = dirname(require.resolve(name)); folder !== dirname(folder); folder = dirname(folder)) {
    const file = readdirSync(folder).find((candidate) => /^licen[cs]e(\.(md|txt))?$/i.test(candidate));
    if (file !== undefined) {
      return readFileSync(join(folder, file), 'utf8').trim();
    }
  }
  throw new Error(`${name} has no licence file`);
}
