/** Loads a package by Node itself, once for all suites of a process: Jest would load it in each suite. */
export const nativeRequire = process.getBuiltinModule('node:module').createRequire(import.meta.url);
