import { setTimeout as pause } from 'node:timers/promises';
import { unwrittenLogouts } from '../problems/host-problems.js';
import type { ProblemLog } from '../problems/problem-log.service.js';
import type { Clock } from '../time/clock.js';
import type { SharedValues } from './shared-values.service.js';

/** Logouts that wait for the store. A further one is tried once. */
const MAX_WAITING = 1_000;

/** Waits before the further attempts to write a logout, in ms: four attempts in a minute. */
const WRITE_AGAIN_AFTER = [1_000, 10_000, 40_000];

/** A logout that is to be in the store. */
interface Ended {
  readonly name: string;
  /** {@link Clock.now} at which it is no longer needed. */
  readonly until: number;
}

/** Own logouts on their way to the store: each is written at once, and again within a minute where the store did not take it. */
export class UnwrittenLogouts {
  /** By name: a logout that is repeated takes one place. */
  readonly #waiting = new Map<string, Ended>();

  /** @param kind of the values in the store */
  constructor(
    private readonly kind: string,
    private readonly values: SharedValues,
    private readonly clock: Clock,
    private readonly log: ProblemLog,
  ) {}

  /** Returns after the first attempt. */
  async write(ended: Ended): Promise<void> {
    if (await this.#attempt(ended)) {
      return;
    }
    if (this.#waiting.size < MAX_WAITING && !this.#waiting.has(ended.name)) {
      this.#waiting.set(ended.name, ended);
      void this.#writeAgain(ended);
    }
    this.log.warn(unwrittenLogouts(this.#waiting.size), 'unwritten logouts');
  }

  /** The last attempts. Each takes a second at most. */
  async close(): Promise<void> {
    const left = [...this.#waiting.values()];
    this.#waiting.clear();
    await Promise.all(left.map((one) => this.#attempt(one)));
  }

  async #writeAgain(ended: Ended): Promise<void> {
    for (const ms of WRITE_AGAIN_AFTER) {
      // What waits must not delay the exit of the process.
      await pause(ms, undefined, { ref: false });
      if (!this.#waiting.has(ended.name) || (await this.#attempt(ended))) {
        break;
      }
    }
    this.#waiting.delete(ended.name);
  }

  /** Answers whether the store took it. It is asked even while it rests. */
  async #attempt({ name, until }: Ended): Promise<boolean> {
    const left = Math.max(1, until - this.clock.now());
    return (await this.values.write(this.kind, name, '1', left, { evenAtRest: true })) === true;
  }
}
