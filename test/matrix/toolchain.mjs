/** The programs that cells run with: Node and pnpm, as packages of npm. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { runLimited } from './run-limited.mjs';

/** Same major as in the test of stock projects. */
const PNPM = 'pnpm@10';

const SECONDS = 180;

/** Path of a file of a package, which is installed into a folder of its own where it is missing. */
async function provide(cache, spec, file) {
  const folder = join(cache, spec.replace('@', '-'));
  const path = join(folder, 'node_modules', file);
  if (existsSync(path)) {
    return path;
  }
  mkdirSync(folder, { recursive: true });
  // The package node fetches the program of this platform in a script.
  const manifest = { private: true, allowScripts: { node: true } };
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest));
  const args = ['install', '--no-audit', '--no-fund', '--no-package-lock', spec];
  const { isOk, output } = await runLimited('npm', args, { cwd: folder, seconds: SECONDS });
  if (!isOk || !existsSync(path)) {
    throw new Error(`npm cannot install ${spec}:\n${output}`);
  }
  return path;
}

/** Path of a Node of a version: this one where it has it. */
export function provideNode(cache, version) {
  const isThis = `${process.version}.`.startsWith(`v${version}.`);
  return isThis ? process.execPath : provide(cache, `node@${version}`, 'node/bin/node');
}

/** Path of the script of pnpm. */
export function providePnpm(cache) {
  return provide(cache, PNPM, 'pnpm/bin/pnpm.cjs');
}

/** Environment in which `node` is a certain one. */
export function environmentOf(node) {
  return { ...process.env, PATH: `${dirname(node)}:${process.env['PATH']}` };
}
