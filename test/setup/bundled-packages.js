/**
 * Large packages as a few files each, for the tests. Jest loads all modules anew for every suite, and a host has 1,900 of them,
 * or 570 with these. The code stays as it is installed; only its files are joined.
 */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '../..');
const CACHE = join(ROOT, 'node_modules/.cache/test-packages');

/** Nest's packages and what other packages import of their files: all see one copy of each module. */
const NEST = {
  common: [
    'constants',
    'enums/route-paramtypes.enum',
    'interfaces/index',
    'internal',
    'pipes/validation.pipe',
    'utils/load-package.util',
    'utils/shared.utils',
  ],
  core: [
    'errors/exceptions/unknown-dependencies.exception',
    'helpers/execution-context-host',
    'helpers/external-context-creator',
    'helpers/messages',
    'injector/constants',
    'injector/injector',
    'injector/internal-core-module/index',
    'inspector/index',
    'inspector/serialized-graph',
    'internal',
    'metadata-scanner',
    'router/legacy-route-converter',
    'router/request/request-constants',
    'router/route-path-factory',
  ],
  microservices: ['microservices-module'],
  'platform-express': [],
  'platform-fastify': [],
  'platform-socket.io': [],
  'platform-ws': [],
  testing: [],
  websockets: ['internal', 'socket-module'],
};

/** They are imported by their name only, and share no state with another copy of what they import: Fastify does. */
const ESM = ['es-toolkit/compat', 'jose', 'oidc-provider', 'zod'];
/** CommonJS packages that require Nest. They become ES modules: Jest on Node 20 does not load those of Nest from CommonJS. */
const REQUIRE_NEST = ['@nestjs/throttler', 'nestjs-cls'];
const COMMONJS = [
  '@fastify/ajv-compiler',
  '@fastify/fast-json-stringify-compiler',
  'body-parser',
  'express',
  'find-my-way',
  'multer',
  'semver',
];
/**
 * Loaded by Node itself, once for all suites of a worker. What they create belongs to another realm than the test, as what
 * Node creates does: `instanceof Error` does not hold for their errors.
 */
const NATIVE = ['axios', 'fastify', 'ioredis', 'ioredis5', 'pg', 'redis', 'redis5', 'undici'];

/** Entries of Jest's `moduleNameMapper`. A file of Nest that {@link NEST} lacks is not found: add it there. */
export async function bundledPackages() {
  const hash = createHash('sha256').update(readFileSync(join(ROOT, 'package-lock.json')));
  hash.update(readFileSync(fileURLToPath(import.meta.url)));
  const folder = join(CACHE, hash.digest('hex').slice(0, 16));
  if (!existsSync(folder)) {
    rmSync(CACHE, { recursive: true, force: true });
    const unfinished = `${folder}-${process.pid}`;
    await bundleAll(unfinished);
    renameSync(unfinished, folder);
  }
  return {
    [`^@nestjs/(${Object.keys(NEST).join('|')})$`]: `${folder}/nest/$1/index.js`,
    [`^@nestjs/(${Object.keys(NEST).join('|')})/(.*?)(\\.js)?$`]: `${folder}/nest/$1/$2.js`,
    [`^(${[...ESM, ...REQUIRE_NEST].join('|')})$`]: `${folder}/esm/$1.js`,
    [`^(${[...COMMONJS, ...NATIVE].join('|')})$`]: `${folder}/commonjs/$1.cjs`,
  };
}

async function bundleAll(folder) {
  const common = {
    absWorkingDir: ROOT,
    bundle: true,
    platform: 'node',
    target: 'node20',
    keepNames: true,
    // Its tables are large and not read.
    external: ['iconv-lite'],
  };
  const esm = {
    ...common,
    format: 'esm',
    splitting: true,
    // CommonJS modules within a bundle require Node's modules.
    banner: {
      js: "import { createRequire as requireIn } from 'node:module';\nconst require = requireIn(import.meta.url);",
    },
  };
  const nest = Object.entries(NEST).flatMap(([name, files]) =>
    ['index', ...files].map((file) => ({
      in: `node_modules/@nestjs/${name}/${file}.js`,
      out: `${name}/${file}`,
    })),
  );
  await build({ ...esm, packages: 'external', entryPoints: nest, outdir: `${folder}/nest` });
  await build({ ...esm, entryPoints: named(ESM), outdir: `${folder}/esm` });
  for (const name of REQUIRE_NEST) {
    await buildAsEsm(esm, name, `${folder}/esm/${name}.js`);
  }
  await build({
    ...common,
    format: 'cjs',
    entryPoints: named(COMMONJS),
    outdir: `${folder}/commonjs`,
    outExtension: { '.js': '.cjs' },
  });
  for (const name of NATIVE) {
    const native = `require('node:vm').runInThisContext('process').getBuiltinModule('node:module').createRequire(__filename)`;
    writeFileSync(
      `${folder}/commonjs/${name}.cjs`,
      `const all = ${native}('${name}');\nmodule.exports = all;\n`,
    );
  }
  writeFileSync(`${folder}/package.json`, '{ "type": "module" }\n');
}

/** The names that a CommonJS package exports are known only when it runs. */
async function buildAsEsm(options, name, outfile) {
  const names = Object.keys(createRequire(import.meta.url)(name)).join();
  const contents = `export { ${names} } from '${name}';`;
  const importNest = {
    name: 'import-nest',
    setup({ onResolve, onLoad }) {
      onResolve({ filter: /^(@nestjs\/(common|core)|rxjs|reflect-metadata)/ }, ({ path, kind }) =>
        kind === 'require-call' ? { path, namespace: 'nest' } : { path, external: true },
      );
      onLoad({ filter: /./, namespace: 'nest' }, ({ path }) => ({ contents: `export * from '${path}';` }));
    },
  };
  const stdin = { contents, resolveDir: ROOT };
  await build({ ...options, splitting: false, stdin, outfile, plugins: [importNest] });
}

function named(packages) {
  return packages.map((name) => ({ in: name, out: name }));
}
