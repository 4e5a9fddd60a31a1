/**
 * The environment of a suite: the context of Node itself. Packages that Node loads once for all suites of a worker
 * (`native-packages.js`) then have the same `Error` and `Object` as the tests. A context of its own is slower, too: each use of a global
 * passes a proxy.
 */
import { createRequire } from 'node:module';
import vm from 'node:vm';

/** From package to package: Jest does not export its parts. */
const requireOfJest = ['jest', '@jest/core', 'jest-config', 'jest-environment-node'].reduce(
  (require, name) => createRequire(require.resolve(name)),
  createRequire(import.meta.url),
);
const { LegacyFakeTimers, ModernFakeTimers } = requireOfJest('@jest/fake-timers');
const { ModuleMocker } = requireOfJest('jest-mock');

/** What Jest hands to Node as the context of each module. Node takes its own where there is none. */
const OWN = {};

/** Once for all suites of a worker. */
function runModulesInOwnContext() {
  const { SourceTextModule, SyntheticModule, compileFunction } = vm;
  vm.SourceTextModule = class extends SourceTextModule {
    constructor(code, options) {
      super(code, { ...options, context: undefined });
    }
  };
  vm.SyntheticModule = class extends SyntheticModule {
    constructor(names, evaluate, options) {
      super(names, evaluate, { ...options, context: undefined });
    }
  };
  vm.compileFunction = (code, names, options) =>
    compileFunction(code, names, { ...options, parsingContext: undefined });
  // Jest would replace it by one that loads packages by Jest.
  const { getBuiltinModule } = process;
  Object.defineProperty(process, 'getBuiltinModule', { get: () => getBuiltinModule, set() {} });
}

runModulesInOwnContext();

export default class OneContext {
  global = globalThis;
  moduleMocker = new ModuleMocker(globalThis);
  fakeTimers;
  fakeTimersModern;
  #context = OWN;
  #globals = Object.getOwnPropertyDescriptors(globalThis);
  #process = { exit: process.exit, exitCode: process.exitCode, env: { ...process.env } };

  constructor({ projectConfig: config }) {
    const { global, moduleMocker } = this;
    const timerConfig = { idToRef: (id) => id, refToId: (timer) => timer };
    this.fakeTimers = new LegacyFakeTimers({ config, global, moduleMocker, timerConfig });
    this.fakeTimersModern = new ModernFakeTimers({ config, global });
  }

  setup() {}

  getVmContext() {
    return this.#context;
  }

  exportConditions() {
    return ['node', 'node-addons'];
  }

  /** Leaves nothing of this suite to the next one of the worker. */
  teardown() {
    this.#context = null;
    this.fakeTimers.dispose();
    this.fakeTimersModern.dispose();
    const now = Object.getOwnPropertyDescriptors(globalThis);
    for (const key of Reflect.ownKeys(now).filter((name) => now[name].configurable)) {
      const before = this.#globals[key];
      if (before === undefined) {
        delete globalThis[key];
      } else if (before.value !== now[key].value || before.get !== now[key].get) {
        Object.defineProperty(globalThis, key, before);
      }
    }
    const { env, ...others } = this.#process;
    Object.assign(process, others);
    Object.keys(process.env).forEach((name) => name in env || delete process.env[name]);
    Object.assign(process.env, env);
  }
}
