import { Inject, Injectable } from '@nestjs/common';
import { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import { SharedValues } from './shared-values.service.js';

/** Lifetime of a lease, in ms. A holder that was killed delays the others by no more than this. */
const LEASE_TTL = 1_000;

/** How often the holder sets its lease again, in ms. */
const EXTEND_EVERY = 300;

/** Lifetime in ms of a lease whose holder failed or got what it cannot share: the next process asks at once. */
const TTL_WITHOUT_RESULT = 20;

/**
 * Shares of the deadline until which other processes wait for the holder of a lease: half of it for the first one. One
 * process then takes a second lease and asks as well. After three quarters every process asks.
 */
const PATIENCE = [0.5, 0.75];

/** Work whose result the processes of a host share. */
export interface SharedWork<T> {
  /** For keys and diagnostics: `token`. */
  readonly kind: string;
  /**
   * Names the work: what is fetched **and what it replaces**. A lease is never deleted, so it may outlive its work by a
   * second; the next work for the same value must have another name.
   */
  readonly name: string;
  /**
   * Looks in the store for the result of another process. `undefined`: there is none. It may throw, where another process
   * shared its failure.
   */
  find(): Promise<T | undefined>;
  /** Does the work in this process and stores its result, so that {@link find} of the others answers it. */
  ask(): Promise<T>;
  /** Whether the others will find this result. Default: yes. Where not, the next process asks at once. */
  isStored?(value: T): boolean;
}

/** Result of {@link FleetWork.run}: found at once, got from the process with the lease, or asked for here. */
export interface WorkResult<T> {
  readonly value: T;
  readonly source: 'found' | 'waited' | 'asked';
}

/**
 * Lets one process of a fleet do a piece of work while the others wait for its result.
 *
 * One process takes a lease (set where absent, 1 s), does the work, and sets the lease again every 300 ms meanwhile. The
 * others look for its result with jitter. When the lease lapses, because its holder failed or was killed, one of them takes
 * it over. They wait for half of their deadline; then one of them asks as well, even if the holder is alive. Where the store
 * is down, each process asks for itself.
 *
 * A process should call it once for concurrent callers (single flight): two calls in one process wait for each other as two
 * processes do.
 *
 * @example
 * const { value, source } = await fleetWork.run(
 *   {
 *     kind: 'token',
 *     name: JSON.stringify([tokenName, replaced]),
 *     find: () => this.#find(tokenName),
 *     ask: async () => this.#keep(await this.#request(deadline)),
 *   },
 *   deadline,
 * );
 */
@Injectable()
export class FleetWork {
  readonly #values: SharedValues;
  readonly #clock: Clock;

  constructor(@Inject(SharedValues) values: SharedValues, @Inject(Clock) clock: Clock) {
    this.#values = values;
    this.#clock = clock;
  }

  /**
   * The result of another process, or of `ask`.
   *
   * @param deadline limits the waiting; `ask` must obey it by itself
   * @throws {ExhibitorError} `deadline_exceeded`, `aborted` or `service_unavailable` where the deadline ends, and errors of
   * `find` and `ask`
   */
  async run<T>(work: SharedWork<T>, deadline: Deadline): Promise<WorkResult<T>> {
    if (!this.#values.enabled) {
      return { value: await work.ask(), source: 'asked' };
    }
    const found = await work.find();
    if (found !== undefined) {
      return { value: found, source: 'found' };
    }
    const whole = deadline.remaining();
    for (const [stage, share] of PATIENCE.entries()) {
      const result = await this.#leaseOrWait(work, `${stage}:${work.name}`, deadline, whole * (1 - share));
      if (result !== undefined) {
        return result;
      }
      // The processes of a fleet often begin together. With jitter one of them is the first.
      await deadline.sleep(whole * (0.02 + 0.05 * this.#clock.random()));
    }
    return this.#askAlone(work, deadline);
  }

  /** Takes the lease and asks, or waits for its holder until `least` ms of the deadline are left. */
  async #leaseOrWait<T>(
    work: SharedWork<T>,
    lease: string,
    deadline: Deadline,
    least: number,
  ): Promise<WorkResult<T> | undefined> {
    for (let turn = 0; ; turn++) {
      const isTaken = await this.#values.set(leaseKind(work), lease, true, LEASE_TTL, { ifAbsent: true });
      if (isTaken === undefined) {
        return this.#askAlone(work, deadline);
      }
      // Also after the lease was taken: the last holder may have finished since the last look.
      const found = await work.find();
      if (found !== undefined) {
        this.#values.tell(work.kind, 'waited');
        return { value: found, source: 'waited' };
      }
      if (isTaken) {
        return this.#askWithLease(work, lease, deadline);
      }
      if (deadline.remaining() <= least) {
        return undefined;
      }
      await deadline.sleep(lookAgainAfter(turn, this.#clock.random()));
    }
  }

  async #askWithLease<T>(work: SharedWork<T>, lease: string, deadline: Deadline): Promise<WorkResult<T>> {
    this.#values.tell(work.kind, 'leased');
    const extend = (ttl: number) => void this.#values.set(leaseKind(work), lease, true, ttl);
    // The work keeps the process alive, not its lease.
    const timer = setInterval(extend, EXTEND_EVERY, LEASE_TTL).unref();
    let isStored = false;
    try {
      const result = await this.#askAlone(work, deadline);
      isStored = work.isStored?.(result.value) ?? true;
      return result;
    } finally {
      clearInterval(timer);
      if (!isStored) {
        extend(TTL_WITHOUT_RESULT);
      }
    }
  }

  async #askAlone<T>(work: SharedWork<T>, deadline: Deadline): Promise<WorkResult<T>> {
    if (deadline.isOver) {
      throw deadline.failure({ tenant: deadline.tenant, attempts: deadline.sent });
    }
    return { value: await work.ask(), source: 'asked' };
  }
}

function leaseKind({ kind }: { kind: string }): string {
  return `${kind}-lease`;
}

/**
 * Time before the next look at the store, in ms: 15–45 ms at first, doubling to 60–180 ms.
 *
 * @param turn number of looks before, from 0
 * @param random from 0 to 1
 */
export function lookAgainAfter(turn: number, random: number): number {
  return Math.min(120, 30 * 2 ** turn) * (0.5 + random);
}
