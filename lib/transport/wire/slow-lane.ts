import dns from 'node:dns';
import { errorCode } from './stale-connection.js';

/** A name server that takes longer to answer is slow, in ms. */
export const SLOW = 1_000;

/** Runs look-ups that may block their thread one at a time, tenants in turn. */
export class SlowLane {
  /** What begins each look-up that waits, by name. */
  readonly #waiting = new Map<string, (leave: () => void) => void>();
  /** Names that each tenant waits for. The first tenant is next. */
  readonly #queues = new Map<string, Set<string>>();
  #isBusy = false;

  /**
   * Resolves when the look-up may run, with what its end must call. Where name servers answer for the name without delay, it runs
   * beside the lane.
   */
  enter(name: string, tenant: string): Promise<() => void> {
    return new Promise((begin) => {
      this.#waiting.set(name, begin);
      this.join(name, tenant);
      this.#next();
      if (this.#waiting.has(name)) {
        void isAnswered(name).then((isFast) => isFast && this.#begin(name, () => {}));
      }
    });
  }

  /** A further tenant waits for a name, which then has its turn too. */
  join(name: string, tenant: string): void {
    if (this.#waiting.has(name)) {
      const names = this.#queues.get(tenant) ?? new Set();
      this.#queues.set(tenant, names.add(name));
    }
  }

  /** Drops what waits. */
  close(): void {
    this.#waiting.clear();
    this.#queues.clear();
  }

  #next(): void {
    for (const [tenant, names] of this.#isBusy ? [] : this.#queues) {
      const [name] = names;
      if (name !== undefined) {
        this.#isBusy = true;
        this.#begin(name, () => {
          this.#isBusy = false;
          // Behind all others, also those that came meanwhile.
          this.#queues.delete(tenant);
          this.#queues.set(tenant, names);
          this.#next();
        });
        return;
      }
      this.#queues.delete(tenant);
    }
  }

  #begin(name: string, leave: () => void): void {
    const begin = this.#waiting.get(name);
    this.#waiting.delete(name);
    for (const names of this.#queues.values()) {
      names.delete(name);
    }
    begin?.(leave);
  }
}

/** Whether name servers answer for a name without delay, also that it has no address. c-ares asks them, which takes no thread. */
async function isAnswered(name: string): Promise<boolean> {
  const resolver = new dns.promises.Resolver();
  const timer = setTimeout(() => resolver.cancel(), SLOW);
  const answers = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
  clearTimeout(timer);
  return answers.every(
    (answer) => answer.status === 'fulfilled' || ['ENODATA', 'ENOTFOUND'].includes(errorCode(answer.reason)),
  );
}
