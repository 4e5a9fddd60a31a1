import dns from 'node:dns';
import { errorCode } from './stale-connection.js';

/** A name server that takes longer to answer is slow, in ms. */
export const SLOW = 1_000;

/**
 * Runs look-ups that may block their thread one at a time, tenants in turn, and others beside them. A tenant has one look-up at
 * a time: its name servers may answer the first question and be silent for the next.
 */
export class SlowLane {
  /** What begins each look-up that waits, by name. */
  readonly #waiting = new Map<string, (leave: () => void) => void>();
  /** Names that each tenant waits for. The first tenant is next. */
  readonly #queues = new Map<string, Set<string>>();
  /** Names that need not wait for the lane. */
  readonly #fast = new Set<string>();
  /** Tenants whose look-up is under way. */
  readonly #active = new Set<string>();
  #isBusy = false;

  /**
   * Resolves when the look-up may run, with what its end must call. Where name servers answer for the name without delay, it runs
   * beside the lane.
   *
   * @param isFast the last look-up of the name was
   */
  enter(name: string, tenant: string, isFast: boolean): Promise<() => void> {
    return new Promise((begin) => {
      this.#waiting.set(name, begin);
      this.join(name, tenant);
      const pass = (): void => {
        this.#fast.add(name);
        this.#next();
      };
      if (isFast) {
        pass();
        return;
      }
      this.#next();
      if (this.#waiting.has(name)) {
        void isAnswered(name).then((isSoon) => isSoon && this.#waiting.has(name) && pass());
      }
    });
  }

  /** A further tenant waits for a name, which then has its turn too. */
  join(name: string, tenant: string): void {
    if (this.#waiting.has(name)) {
      const names = this.#queues.get(tenant) ?? new Set();
      this.#queues.set(tenant, names.add(name));
    }
    if (this.#fast.has(name)) {
      this.#next();
    }
  }

  /** Drops what waits. */
  close(): void {
    this.#waiting.clear();
    this.#queues.clear();
    this.#fast.clear();
  }

  #next(): void {
    for (const name of this.#fast) {
      const [tenant] =
        [...this.#queues].find(([key, names]) => names.has(name) && !this.#active.has(key)) ?? [];
      if (tenant !== undefined) {
        this.#begin(name, tenant, () => {});
      }
    }
    for (const [tenant, names] of this.#queues) {
      const [name] = names;
      if (name === undefined) {
        this.#queues.delete(tenant);
      } else if (!this.#isBusy && !this.#active.has(tenant)) {
        this.#isBusy = true;
        this.#begin(name, tenant, () => {
          this.#isBusy = false;
          // Behind all others, also those that came meanwhile.
          this.#queues.delete(tenant);
          this.#queues.set(tenant, names);
        });
        return;
      }
    }
  }

  #begin(name: string, tenant: string, leave: () => void): void {
    const begin = this.#waiting.get(name);
    this.#waiting.delete(name);
    this.#fast.delete(name);
    for (const names of this.#queues.values()) {
      names.delete(name);
    }
    this.#active.add(tenant);
    begin?.(() => {
      this.#active.delete(tenant);
      leave();
      this.#next();
    });
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
