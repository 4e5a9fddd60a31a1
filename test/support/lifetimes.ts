/** What starts before the tests of a file or a `describe`, and stops after them. */
import { afterAll, afterEach, beforeAll } from '@jest/globals';
import type { ExhibitorSandbox, SandboxOptions } from '../../lib/development/testing/index.js';
import { startSandbox } from './sandbox.js';

/** A sandbox for the tests of a file. */
export async function useSandbox(options?: SandboxOptions): Promise<ExhibitorSandbox> {
  const sandbox = await startSandbox(options);
  afterEach(() => sandbox.clearFaults());
  afterAll(() => sandbox.stop());
  return sandbox;
}

/** A host for the tests of a file or a `describe`. It has its members when they run. */
export function useHost<H extends { close(): Promise<unknown> }>(start: () => Promise<H>): H {
  const host = {} as H;
  beforeAll(async () => void Object.assign(host, await start()));
  afterAll(() => (host as Partial<H>).close?.());
  return host;
}

/** Closes what a test has opened: `const host = closing(await startHost(…))`. */
export function useClosing(): <T extends { close(): Promise<unknown> }>(opened: T) => T {
  const all: { close(): Promise<unknown> }[] = [];
  afterEach(() => Promise.all(all.splice(0).map((one) => one.close())));
  return (opened) => {
    all.push(opened);
    return opened;
  };
}
