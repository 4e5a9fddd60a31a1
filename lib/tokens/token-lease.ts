import type { SharedValues } from '../store/shared-values.service.js';
import type { Clock } from '../time/clock.js';

const KIND = 'token-lease';

/** Lifetime of a lease, in ms. With the time until the others look again, a holder that was killed delays them by 3 s at most. */
const TTL = 2_600;

/** What is left of its lifetime when the holder is done, in ms: without a token in the store the next process asks at once. */
const TTL_AFTER = 20;

/** Who has a lease: this process, or another one. `unknown`: the store is down. */
export type LeaseHolder = 'self' | 'other' | 'unknown';

/**
 * The lease on the token requests of a client: a value in the shared store, set where absent. The process that set it asks the
 * token endpoint, while the others look for its token. It is never deleted, it lapses: so the processes that wait never all ask at
 * once.
 */
export class TokenLease {
  /** Until then it is surely of this process. In ms of {@link Clock.now}. */
  private oursUntil: number | undefined;

  /** @param client name of what the processes share of the client */
  constructor(
    private readonly values: SharedValues,
    private readonly client: string,
    private readonly clock: Clock,
  ) {}

  async take(): Promise<LeaseHolder> {
    const holder = await this.set({ ifAbsent: true });
    if (holder !== 'other') {
      return holder;
    }
    const held = await this.values.read(KIND, this.client);
    // Rubbish is no lease, and may live for ever. A lease that has just lapsed is another one's until the store has dropped it: two
    // processes could take it over.
    const isRubbish = held?.isRubbish === true;
    return isRubbish ? this.set() : 'other';
  }

  /** This process is done. A lease that another process has, or may have taken over, stays as it is. */
  async release(): Promise<void> {
    if (this.oursUntil !== undefined && this.clock.now() < this.oursUntil) {
      await this.values.set(KIND, this.client, true, TTL_AFTER);
    }
  }

  private async set(options?: { ifAbsent: true }): Promise<LeaseHolder> {
    const until = this.clock.now() + TTL;
    const isSet = await this.values.set(KIND, this.client, true, TTL, options);
    if (isSet === undefined) {
      return 'unknown';
    }
    this.oursUntil = isSet ? until : undefined;
    return isSet ? 'self' : 'other';
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
