import { types } from 'node:util';
import { runInThisContext } from 'node:vm';
import { copyJson } from '../json.js';
import type { ExhibitorSandbox as LoadedSandbox } from './exhibitor-sandbox.js';
import type { SandboxOptions } from './sandbox-options.js';

/** Of the CommonJS file that the build makes of this module. */
// oxlint-disable-next-line no-underscore-dangle -- the name in CommonJS
declare const __filename: string;

/**
 * The `ExhibitorSandbox` of the CommonJS build, which only Jest loads. A test under Jest has its own module registry,
 * transforms and global classes, and therefore two problems with the sandbox:
 *
 * 1. `oidc-provider` is an ES module, which Jest cannot load from CommonJS. So Node itself loads the sandbox, outside of Jest.
 * 2. What the sandbox answers is made of Node's classes. `toStrictEqual` and `toThrow` tell them from the classes of the test.
 *    So a test gets a proxy of the sandbox, and whatever it answers or throws is copied into classes of the test.
 */
// oxlint-disable-next-line typescript/no-extraneous-class -- `instanceof`, as with the sandbox itself
export class ExhibitorSandbox {
  static async start(options?: SandboxOptions): Promise<object> {
    const sandbox = await loadSandbox().start(options).catch(throwCopy);
    return new Proxy(sandbox, {
      get: (_, name) => readMember(sandbox, name),
      set: (_, name, value) => Reflect.set(sandbox, name, value),
      getPrototypeOf: () => this.prototype,
    });
  }
}

/** Loads the sandbox with the `require` of Node: the `process`, `require` and `node:module` that a test sees are Jest's. */
function loadSandbox(): typeof LoadedSandbox {
  const { getBuiltinModule }: NodeJS.Process = runInThisContext('process');
  const { createRequire } = getBuiltinModule('node:module');
  return createRequire(__filename)('../../testing/sandbox.js').ExhibitorSandbox;
}

/** A copy of a value. Of a method: a function that calls it on the sandbox itself, since a proxy has no private members. */
function readMember(sandbox: LoadedSandbox, name: string | symbol): unknown {
  const member: unknown = Reflect.get(sandbox, name);
  return typeof member === 'function'
    ? (...args: unknown[]) => copyOutcome(() => Reflect.apply(member, sandbox, args))
    : copyJson(member);
}

/** Copies what a call returns, resolves with, throws or rejects with. */
function copyOutcome(call: () => unknown): unknown {
  try {
    const result = call();
    return types.isPromise(result) ? result.then((value) => copyJson(value), throwCopy) : copyJson(result);
  } catch (error) {
    return throwCopy(error);
  }
}

function throwCopy(error: unknown): never {
  const { name, message } = types.isNativeError(error) ? error : new Error(String(error));
  throw name === 'RangeError' ? new RangeError(message) : new Error(message);
}
