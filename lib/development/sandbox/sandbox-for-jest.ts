import { runInThisContext } from 'node:vm';
import type { ExhibitorSandbox as LoadedSandbox } from './exhibitor-sandbox.js';
import type { SandboxOptions } from './sandbox-options.js';

/** Of the CommonJS file that the build makes of this module. */
// oxlint-disable-next-line no-underscore-dangle -- the name in CommonJS
declare const __filename: string;

/**
 * The `ExhibitorSandbox` of the CommonJS build, which only Jest loads. `oidc-provider` is an ES module, which Jest cannot load from
 * CommonJS. So Node itself loads the sandbox, outside of Jest: the `process`, `require` and `node:module` that a test sees are Jest's.
 */
export const ExhibitorSandbox = {
  async start(options?: SandboxOptions): Promise<LoadedSandbox> {
    const { getBuiltinModule }: NodeJS.Process = runInThisContext('process');
    const { createRequire } = getBuiltinModule('node:module');
    const sandbox: typeof LoadedSandbox = createRequire(__filename)(
      '../../../development/sandbox.js',
    ).ExhibitorSandbox;
    return sandbox.start(options);
  },
};
