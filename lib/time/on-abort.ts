interface Watch {
  readonly callbacks: Set<() => void>;
  readonly fire: () => void;
}

const watches = new WeakMap<AbortSignal, Watch>();

/**
 * Calls back when the signal aborts, at once if it has; answers how to stop listening. Node warns of a leak at the
 * eleventh listener of one signal, and a host may hand one signal to hundreds of calls: they share a single listener.
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
  // A wrapper of its own, so that one function may be registered twice.
  const entry = (): void => callback();
  watch.callbacks.add(entry);
  return () => {
    if (watch.callbacks.delete(entry) && watch.callbacks.size === 0) {
      stopWatch(signal, watch);
    }
  };
}

function startWatch(signal: AbortSignal): Watch {
  const callbacks = new Set<() => void>();
  const fire = (): void => {
    watches.delete(signal);
    for (const callback of callbacks) {
      callback();
    }
  };
  const watch = { callbacks, fire };
  watches.set(signal, watch);
  signal.addEventListener('abort', fire, { once: true });
  return watch;
}

function stopWatch(signal: AbortSignal, watch: Watch): void {
  if (watches.get(signal) === watch) {
    watches.delete(signal);
  }
  signal.removeEventListener('abort', watch.fire);
}
