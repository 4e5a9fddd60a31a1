/** What a host installs beside this package: packages that are missing, and packages that are there twice. */
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

/** Of every copy of this package that the process has loaded, whatever its version. */
const COPIES = Symbol.for('nestjs-exhibitor.copies');

const copies: Set<string> = Reflect.get(globalThis, COPIES) ?? new Set();
Reflect.set(globalThis, COPIES, copies);
// A bundler may leave none.
copies.add(String(import.meta.url));

const INSTALL =
  'npm install @nestjs/axios @nestjs/passport axios passport (on Nest 11 @nestjs/axios@4 @nestjs/passport@11), or the same with ' +
  'pnpm add or yarn add';

/** What to do where a package is there twice. A part of a message. */
const ONE_COPY =
  'All packages of an application need one copy: give each package.json of the workspace the same version, or name the package in ' +
  'peerDependencies only, then install again. npm ls, pnpm why and yarn why show who brings it';

/** @throws Error where the process has loaded another copy of this package, whose guards would not find the services of this one */
export function requireOneCopy(): void {
  if (copies.size > 1) {
    const places = [...copies].map((url) => (url.startsWith('file:') ? fileURLToPath(url) : url)).join(', ');
    throw new Error(`nestjs-exhibitor is loaded from ${copies.size} places: ${places}. ${ONE_COPY}`);
  }
}

/** The error where the application and this package load different copies of Nest. */
export function secondNest(): Error {
  const name = '@nestjs/common';
  const own = whereIs(name) ?? 'a place of its own';
  return new Error(
    `nestjs-exhibitor loads another copy of ${name} than the application, that of ${own}. ${ONE_COPY}`,
  );
}

/**
 * Loads a peer dependency.
 *
 * @throws Error where it is not installed
 */
export async function loadPeer<T>(name: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (error) {
    throw String(error).includes(`'${name}'`)
      ? new Error(`nestjs-exhibitor needs the package ${name}, which is not installed: ${INSTALL}`, {
          cause: error,
        })
      : error;
  }
}

/** As {@link loadPeer}, but does not load it where it is found: one that is needed later. In a bundle it is found nowhere, and loaded. */
export async function requirePeer(name: string, load: () => Promise<unknown>): Promise<void> {
  if (whereIs(name) === undefined) {
    await loadPeer(name, load);
  }
}

function whereIs(name: string): string | undefined {
  try {
    return createRequire(import.meta.url).resolve(name);
  } catch {
    return undefined;
  }
}
