const callbacksOf = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls back when the signal aborts; immediately if it already has.
 *
 * All callbacks of a signal share one listener, since a host may pass one signal to thousands of calls: Node warns of a leak at
 * the eleventh listener, and searches through all of them to add or remove one (0.4 ms for 10,000).
 *
 * @returns a function that removes the callback
 */
export function onAbort(signal: AbortSignal | undefined, callback: () => void): () => void {
  if (signal === undefined) {
    return () => {};
  }
  if (signal.aborted) {
    callback();
    return () => {};
  }
  const callbacks = callbacksOf.get(signal) ?? new Set();
  callbacksOf.set(signal, callbacks);
  // Without effect where it was added before.
  signal.addEventListener('abort', callAll);
  // A new function for each registration, so that the same callback may be registered twice.
  const entry = (): void => callback();
  callbacks.add(entry);
  return () => {
    callbacks.delete(entry);
    if (callbacks.size === 0) {
      signal.removeEventListener('abort', callAll);
    }
  };
}

function callAll(this: AbortSignal): void {
  for (const callback of callbacksOf.get(this) ?? []) {
    callback();
  }
}
