import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type * as OidcProvider from 'oidc-provider';

const NAME = 'oidc-provider';
const MAJOR = 9;
const NEEDED = `ExhibitorSandbox requires the package "${NAME}" ${MAJOR}`;
const REMEDY = `Install it in this folder: npm install --save-dev ${NAME}@${MAJOR}`;

let loading: Promise<typeof OidcProvider> | undefined;

/**
 * Loads `oidc-provider` when the first sandbox starts, so that the import of `nestjs-exhibitor/testing` does not require it. All
 * wait for one import: of two at once, the second would take the `warn` of the first for that of the application, and leave it there.
 */
export function loadProvider(): Promise<typeof OidcProvider> {
  loading ??= importProvider();
  return loading;
}

/** On Node 20 `oidc-provider` logs on import that it recommends a later version. The sandbox works on Node 20. */
async function importProvider(): Promise<typeof OidcProvider> {
  const { warn } = console;
  console.warn = (...message: unknown[]) => {
    if (!String(message[0]).includes('oidc-provider WARNING')) {
      warn.apply(console, message);
    }
  };
  try {
    requireMajor(createRequire(import.meta.url));
    return await import('oidc-provider');
  } catch (error) {
    if (!isMissing(error)) {
      throw error;
    }
    return await importFromProject();
  } finally {
    console.warn = warn;
  }
}

/** It is no peer, which would stay in production. So pnpm, and npm in a workspace, may show it to the project alone. */
async function importFromProject(): Promise<typeof OidcProvider> {
  const ofProject = createRequire(join(process.cwd(), 'package.json'));
  try {
    requireMajor(ofProject);
    return await import(pathToFileURL(ofProject.resolve(NAME)).href);
  } catch (error) {
    throw isMissing(error)
      ? new Error(`${NEEDED}, which is not installed. ${REMEDY}`, { cause: error })
      : error;
  }
}

function requireMajor(from: NodeJS.Require): void {
  const file = `${NAME}/package.json`;
  const { version }: { version: string } = from(file);
  if (Number.parseInt(version, 10) !== MAJOR) {
    throw new Error(`${NEEDED}, not ${version} of ${from.resolve(file)}. ${REMEDY}`);
  }
}

function isMissing(error: unknown): boolean {
  return (
    error instanceof Error && /^(Error: )?Cannot find (module|package) 'oidc-provider/.test(error.message)
  );
}
