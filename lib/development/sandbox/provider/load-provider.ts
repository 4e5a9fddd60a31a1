import type * as OidcProvider from 'oidc-provider';

const NOT_INSTALLED =
  'ExhibitorSandbox requires the optional peer dependency "oidc-provider" 9, which is not installed. ' +
  'Install it with: npm install --save-dev oidc-provider@9';

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
    return await import('oidc-provider');
  } catch (error) {
    throw String(error).includes("'oidc-provider'") ? new Error(NOT_INSTALLED, { cause: error }) : error;
  } finally {
    console.warn = warn;
  }
}
