import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = join(dirname(fileURLToPath(import.meta.url)), '../..');
export const DIST = join(ROOT, 'dist');

const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));

/** The entry points by name: `index`, `testing`, `redis`, … with their files below `dist/`. */
export const ENTRIES = Object.fromEntries(
  Object.entries(exports)
    .filter(([, target]) => target.default?.startsWith('./dist/'))
    .map(([path, target]) => [
      path === '.' ? 'index' : path.slice(2),
      target.default.slice('./dist/'.length),
    ]),
);

/** Files that stay files of their own: the thread of the sandbox loads the sandbox without Nest. */
export const SANDBOX = 'testing/sandbox/exhibitor-sandbox.js';
export const WORKER = 'testing/sandbox/remote/sandbox-worker.js';

/** The sandbox of the CommonJS build. */
export const REMOTE_SANDBOX = 'testing/sandbox/remote/remote-sandbox.js';
