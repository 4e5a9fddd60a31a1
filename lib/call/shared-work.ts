import type { Call, SharedWork } from './call.js';
import type { Calls } from './calls.service.js';

/** Work under way for several callers: the latest of each key. Each caller waits for it by {@link Call.join}. */
export class SharedWorks<K, R> {
  readonly #latest = new Map<K, SharedWork<R>>();

  constructor(private readonly calls: Calls) {}

  get size(): number {
    return this.#latest.size;
  }

  keys(): Iterable<K> {
    return this.#latest.keys();
  }

  /**
   * The work of this key, where a caller that comes now may join it. Nobody joins work whose own time is up: what never ends, as a
   * function of the host may, would hold up all callers for as long as some come.
   */
  joinable(key: K): SharedWork<R> | undefined {
    const work = this.#latest.get(key);
    return work?.call.isOverdue === true ? undefined : work;
  }

  /** Starts work with so many ms of its own. No caller's end cancels it, and its failure is for those who join it. */
  start(key: K, ms: number, work: (call: Call) => Promise<R>): SharedWork<R> {
    const call = this.calls.start(ms);
    const result = call.run(async () => {
      try {
        return await work(call);
      } finally {
        // Before the call is cleared: nobody may join it then.
        if (this.isLatest(key, call)) {
          this.#latest.delete(key);
        }
      }
    });
    // Where nobody waits, an unhandled rejection would end the process.
    result.catch(() => undefined);
    const started = { call, result };
    this.#latest.set(key, started);
    return started;
  }

  /** False where later work of this key has begun, or the key was forgotten: then the callers get what this work finds, and nobody else. */
  isLatest(key: K, call: Call): boolean {
    return this.#latest.get(key)?.call === call;
  }

  /** Work under way goes on for its callers. */
  forget(key: K): void {
    this.#latest.delete(key);
  }
}

/** True where the work that a caller had joined has used up the time that it began with, and the caller has time for another one. */
export function mayStartNext(joined: SharedWork<unknown> | undefined, caller: Call): boolean {
  return joined?.call.isOverdue === true && !caller.isOver;
}
