import type * as OidcProvider from 'oidc-provider';

const NOT_INSTALLED =
  'ExhibitorSandbox requires the optional peer dependency "oidc-provider" 9, which is not installed. ' +
  'Install it with: npm install --save-dev oidc-provider@9';

/** Loads `oidc-provider` when a sandbox starts, so that the import of `nestjs-exhibitor/testing` does not require it. */
export async function loadProvider(
  load: () => Promise<typeof OidcProvider> = () => import('oidc-provider'),
): Promise<typeof OidcProvider> {
  try {
    return await withoutImportWarning(load);
  } catch (error) {
    throw isNotInstalled(error) ? new Error(NOT_INSTALLED, { cause: error }) : error;
  }
}

function isNotInstalled(error: unknown): boolean {
  return (
    error instanceof Error &&
    'code' in error &&
    (error.code === 'ERR_MODULE_NOT_FOUND' || error.code === 'MODULE_NOT_FOUND') &&
    /['"]oidc-provider['"]/.test(error.message)
  );
}

let importing: Promise<unknown> = Promise.resolve();

// On Node 20 `oidc-provider` logs on import that it recommends a later version. The sandbox works on Node 20. One import at a time:
// of two at once, the second would take the `warn` of the first for that of the application, and leave it there.
async function withoutImportWarning<T>(load: () => Promise<T>): Promise<T> {
  const loading = importing.then(async () => {
    const { warn } = console;
    console.warn = (...message: unknown[]) => {
      if (!String(message[0]).includes('oidc-provider WARNING')) {
        warn.apply(console, message);
      }
    };
    try {
      return await load();
    } finally {
      console.warn = warn;
    }
  });
  importing = loading.catch(() => undefined);
  return loading;
}
