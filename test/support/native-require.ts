import { runInThisContext } from 'node:vm';

/** By the `process` of Node: that of a test, and `node:module` in a test, are Jest's own. */
const { getBuiltinModule }: NodeJS.Process = runInThisContext('process');

/** Loads a package by Node itself, once for all suites of a process: Jest would load it in each suite. */
export const nativeRequire = getBuiltinModule('node:module').createRequire(import.meta.url);
