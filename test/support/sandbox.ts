import { ExhibitorSandbox, type SandboxOptions } from '../../lib/testing/index.js';
import { pemOf } from './keys.js';

/** Starts a sandbox that signs with a key of the tests instead of a new one. */
export function startSandbox(options: SandboxOptions = {}): Promise<ExhibitorSandbox> {
  return ExhibitorSandbox.start({ signingKey: pemOf('sandbox'), ...options });
}
