import type { SharedValues } from '../store/shared-values.service.js';
import type { Clock } from '../time/clock.js';

const KIND = 'token-lease';

/** Lifetime of a lease, in ms. With the time until the others look again, a holder that was killed delays them by 3 s at most. */
const TTL = 2_600;

/** What is left of its lifetime when the holder is done, in ms: without a token in the store the next process asks at once. */
const TTL_AFTER = 20;

/**
 * The lease on a token request: a value in the shared store, set where absent. The process that set it asks the token endpoint,
 * while the others look for its token. It is never deleted, it lapses: so the processes that wait never all ask at once.
 */
export class TokenLease {
  /** Until then it is surely of this process. In ms of {@link Clock.now}. */
  private oursUntil = Number.NEGATIVE_INFINITY;

  /** @param name of what is asked for **and what it replaces**: a lease outlives its work, and must not delay the next one */
  constructor(
    private readonly values: SharedValues,
    private readonly name: string,
    private readonly clock: Clock,
  ) {}

  /** Takes the lease. Answers false where another process has it, and `undefined` where the store is down. */
  async take(): Promise<boolean | undefined> {
    const isTaken = await this.set({ ifAbsent: true });
    if (isTaken !== false) {
      return isTaken;
    }
    const held = await this.values.read(KIND, this.name);
    if (held === undefined) {
      return undefined;
    }
    // What does not open is no lease, and may live for ever. Where nothing is there, a lease has just lapsed.
    const isRubbish = held.exists && held.value === undefined;
    return isRubbish ? this.set() : false;
  }

  /** The holder is done. A lease that was not taken, or that another process may have taken over, stays as it is. */
  async release(): Promise<void> {
    if (this.clock.now() < this.oursUntil) {
      await this.values.set(KIND, this.name, true, TTL_AFTER);
    }
  }

  private async set(options?: { ifAbsent: true }): Promise<boolean | undefined> {
    const oursUntil = this.clock.now() + TTL;
    const isTaken = await this.values.set(KIND, this.name, true, TTL, options);
    if (isTaken === true) {
      this.oursUntil = oursUntil;
    }
    return isTaken;
  }
}

/**
 * Time before the next look at the store, in ms: 15–45 ms at first, doubling to 60–180 ms.
 *
 * @param looks number of looks before, from 0
 * @param random from 0 to 1
 */
export function lookAgainAfter(looks: number, random: number): number {
  return Math.min(120, 30 * 2 ** looks) * (0.5 + random);
}
