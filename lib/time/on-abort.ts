interface Watch {
  readonly callbacks: Set<() => void>;
  readonly fire: () => void;
}

const watches = new WeakMap<AbortSignal, Watch>();

/**
 * Calls back when the signal aborts; immediately if it already has.
 *
 * All callbacks of a signal share one listener: Node warns of a leak at the eleventh listener, and a host may pass one
 * signal to hundreds of calls.
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
  const watch = watches.get(signal) ?? startWatch(signal);
  // A new function for each registration, so that the same callback may be registered twice.
  const entry = (): void => callback();
  watch.callbacks.add(entry);
  return () => {
    if (watch.callbacks.delete(entry) && watch.callbacks.size === 0) {
      watches.delete(signal);
      signal.removeEventListener('abort', watch.fire);
    }
  };
}

function startWatch(signal: AbortSignal): Watch {
  const callbacks = new Set<() => void>();
  const fire = (): void => {
    for (const callback of callbacks) {
      callback();
    }
  };
  const watch = { callbacks, fire };
  watches.set(signal, watch);
  signal.addEventListener('abort', fire, { once: true });
  return watch;
}
