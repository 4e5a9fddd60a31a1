/**
 * Runs before every suite. Node 20 copies the value of each `AsyncLocalStorage` in use to every new promise. `jest-circus` and
 * `oidc-provider` are loaded anew for each suite, with a storage each: promises would cost more with each suite of a worker.
 * So the storages of the suites that ended are switched off.
 */
import { AsyncLocalStorage } from 'node:async_hooks';

const USED = Symbol.for('nestjs-exhibitor.test.used-storages');

/** Notes each storage that is used from now on. */
function noteUsed() {
  const used = new Set();
  const { run } = AsyncLocalStorage.prototype;
  AsyncLocalStorage.prototype.run = function (...args) {
    used.add(this);
    return run.apply(this, args);
  };
  return used;
}

// Node's own modules are the same in all suites of a worker.
AsyncLocalStorage[USED] ??= noteUsed();
for (const storage of AsyncLocalStorage[USED]) {
  storage.disable();
}
AsyncLocalStorage[USED].clear();
