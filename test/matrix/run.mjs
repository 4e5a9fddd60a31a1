/**
 * Installs the packed tarball in a host and uses it, once for each cell of the matrix: Node × Nest × adapter × package
 * manager.
 *
 *     npm run test:matrix                              every cell
 *     npm run test:matrix -- node=22,24 manager=pnpm   these cells
 *     npm run test:matrix -- list node=22              prints the cells only
 *
 * Each cell has a time limit. The last line says whether all passed; exit code 0 means that they did.
 */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chosenCells, nameOf } from './cells.mjs';
import { runLimited } from './run-limited.mjs';
import { environmentOf, provideNode, providePnpm } from './toolchain.mjs';

const ROOT = join(import.meta.dirname, '../..');
const CACHE = join(ROOT, 'node_modules/.cache/matrix');
const JEST = join(ROOT, 'node_modules/jest/bin/jest.js');
const PACK_SECONDS = 180;
const CELL_SECONDS = 300;

/** Packs the project as for publishing. */
async function pack(folder) {
  const args = ['pack', '--pack-destination', folder];
  const { isOk, output } = await runLimited('npm', args, { cwd: ROOT, seconds: PACK_SECONDS });
  const tarball = readdirSync(folder).find((name) => name.endsWith('.tgz'));
  if (!isOk || tarball === undefined) {
    throw new Error(`npm pack failed:\n${output}`);
  }
  return join(folder, tarball);
}

/** Runs the tests of a cell on its Node. Cells that differ in the adapter only share one installed host. */
async function runCell(cell, folder, tarball) {
  const node = await provideNode(CACHE, cell.node);
  const host = join(folder, `${cell.node}-${cell.nest}-${cell.manager}`);
  mkdirSync(host, { recursive: true });
  const env = {
    ...environmentOf(node),
    MATRIX_CELL: JSON.stringify(cell),
    MATRIX_HOST: host,
    MATRIX_TARBALL: tarball,
    MATRIX_PNPM: cell.manager === 'pnpm' ? await providePnpm(CACHE) : '',
  };
  const args = ['--experimental-vm-modules', '--no-warnings', JEST, '--config', 'jest.matrix.config.js'];
  const jest = [...args, '--ci', '--forceExit', 'matrix/cell'];
  const { isOk, output } = await runLimited(node, jest, { cwd: ROOT, env, seconds: CELL_SECONDS });
  return { isOk, output, installed: installedIn(host) };
}

/** Version of Nest in a host, as installed. */
function installedIn(host) {
  const file = join(host, 'node_modules/@nestjs/core/package.json');
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')).version : 'not installed';
}

const HEAD = ['Node', 'Nest', 'adapter', 'manager', 'result', 'seconds'];

/** A line of the table. */
function row({ cell, isOk, installed, seconds }) {
  const { node, adapter, manager } = cell;
  return line([node, installed, adapter, manager, isOk ? 'passed' : 'FAILED', seconds.toFixed(0)]);
}

function line(columns) {
  return columns
    .map((column) => column.padEnd(14))
    .join('')
    .trimEnd();
}

async function runAll(cells) {
  const folder = mkdtempSync(join(tmpdir(), 'exhibitor-matrix-'));
  const results = [];
  try {
    const tarball = await pack(folder);
    for (const cell of cells) {
      const start = performance.now();
      const result = await runCell(cell, folder, tarball).catch((error) => ({
        isOk: false,
        output: String(error),
        installed: 'not installed',
      }));
      const done = { ...result, cell, seconds: (performance.now() - start) / 1000 };
      results.push(done);
      console.log(`${row(done)}${done.isOk ? '' : `\n${done.output}`}`);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return results;
}

/** Prints the table and the last line. */
function report(results) {
  const failed = results.filter(({ isOk }) => !isOk).map(({ cell }) => nameOf(cell));
  const passed = `${results.length - failed.length} of ${results.length} cells passed`;
  console.log(['', line(HEAD), ...results.map(row), ''].join('\n'));
  console.log(failed.length === 0 ? passed : `${passed}; failed: ${failed.join('; ')}`);
  process.exitCode = failed.length === 0 ? 0 : 1;
}

try {
  const args = process.argv.slice(2);
  const cells = chosenCells(args.filter((arg) => arg !== 'list'));
  if (args.includes('list')) {
    console.log(cells.map(nameOf).join('\n'));
  } else {
    report(await runAll(cells));
  }
} catch (error) {
  console.error(`${error.message}\nno cell was run`);
  process.exitCode = 1;
}
