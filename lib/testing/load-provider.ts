import type * as OidcProvider from 'oidc-provider';

const MISSING =
  'ExhibitorSandbox needs the optional peer dependency "oidc-provider" 9, which is not installed. ' +
  'Install it with: npm install --save-dev oidc-provider@9';

/**
 * Loads `oidc-provider` when a sandbox starts, so that importing `nestjs-exhibitor/testing` does not need it.
 */
export async function loadProvider(
  load: () => Promise<typeof OidcProvider> = () => import('oidc-provider'),
): Promise<typeof OidcProvider> {
  try {
    return await withoutNotices(load);
  } catch (error) {
    throw isMissing(error) ? new Error(MISSING, { cause: error }) : error;
  }
}

function isMissing(error: unknown): boolean {
  return (
    error instanceof Error &&
    'code' in error &&
    (error.code === 'ERR_MODULE_NOT_FOUND' || error.code === 'MODULE_NOT_FOUND') &&
    /['"]oidc-provider['"]/.test(error.message)
  );
}

// On Node 20 the package warns on import that it prefers a later version; all the sandbox uses works there.
async function withoutNotices<T>(load: () => Promise<T>): Promise<T> {
  const { warn } = console;
  const quiet = (...message: unknown[]) => {
    if (!String(message[0]).includes('oidc-provider WARNING')) {
      warn.apply(console, message);
    }
  };
  console.warn = quiet;
  try {
    return await load();
  } finally {
    if (console.warn === quiet) {
      console.warn = warn;
    }
  }
}
