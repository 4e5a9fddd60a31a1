/**
 * Runs before every suite. Node 20 copies the value of each `AsyncLocalStorage` in use to every new promise. `jest-circus` has one
 * for the test that runs; tests run one after the other, so a property does. The others, as that of `oidc-provider`, are switched
 * off, until a suite uses them.
 */
import { AsyncLocalStorage } from 'node:async_hooks';

const USED = Symbol.for('nestjs-exhibitor.test.used-storages');

/** Notes each storage that is used from now on, except that of `jest-circus`. */
function noteUsed() {
  const used = new Set();
  const { run } = AsyncLocalStorage.prototype;
  AsyncLocalStorage.prototype.run = function (store, ...args) {
    if ('describeBlock' in Object(store) || Object(store).test?.type === 'test') {
      return runAlone(this, store, ...args);
    }
    used.add(this);
    return run.call(this, store, ...args);
  };
  return used;
}

/** Runs a test or a hook of it. */
async function runAlone(storage, store, work) {
  const outer = storage.getStore();
  storage.getStore = () => store;
  try {
    return await work();
  } finally {
    storage.getStore = () => outer;
  }
}

// Node's own modules are the same in all suites of a worker.
AsyncLocalStorage[USED] ??= noteUsed();
for (const storage of AsyncLocalStorage[USED]) {
  storage.disable();
}
AsyncLocalStorage[USED].clear();
