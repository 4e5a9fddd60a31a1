import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));

// Templates and assets are not compiled: they stay in the source folder, beside `dist/`.
const root = basename(here) === 'dist' ? dirname(here) : here;

export const VIEWS = join(root, 'views');
export const ASSETS = join(root, 'assets');
