import { types } from 'node:util';
import { runInThisContext } from 'node:vm';
import type { ExhibitorSandbox as LoadedSandbox } from './exhibitor-sandbox.js';
import type { SandboxOptions } from './sandbox-options.js';

/** Of the CommonJS file that the build makes of this module. */
// oxlint-disable-next-line no-underscore-dangle -- the name in CommonJS
declare const __filename: string;

/**
 * The `ExhibitorSandbox` of the CommonJS build. Node itself loads the sandbox and `oidc-provider`, as ES modules and once for
 * all suites of a process: the transforms and the module registry of Jest do not reach them.
 *
 * Jest runs tests in a realm of their own, where `toStrictEqual` compares prototypes, and `toThrow` compares classes. So every
 * value that the sandbox answers and every error that it throws is copied into this realm.
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

/** By the `process` of Node: that of a test, and `node:module` in a test, are Jest's own. */
function loadSandbox(): typeof LoadedSandbox {
  const { getBuiltinModule }: NodeJS.Process = runInThisContext('process');
  const { createRequire } = getBuiltinModule('node:module');
  return createRequire(__filename)('../../testing/sandbox.js').ExhibitorSandbox;
}

/** A value, or a method that calls that of the sandbox: its private members are those of the sandbox itself. */
function readMember(sandbox: LoadedSandbox, name: string | symbol): unknown {
  const member: unknown = Reflect.get(sandbox, name);
  return typeof member === 'function'
    ? (...args: unknown[]) => copyResult(() => Reflect.apply(member, sandbox, args))
    : copy(member);
}

function copyResult(call: () => unknown): unknown {
  try {
    const result = call();
    return types.isPromise(result) ? result.then(copy, throwCopy) : copy(result);
  } catch (error) {
    return throwCopy(error);
  }
}

function copy(value: unknown): unknown {
  if (Array.isArray(value)) {
    return Array.from(value, copy);
  }
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) {
    return value;
  }
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, copy(inner)]));
}

function throwCopy(error: unknown): never {
  const { name, message } = types.isNativeError(error) ? error : new Error(String(error));
  throw name === 'RangeError' ? new RangeError(message) : new Error(message);
}
