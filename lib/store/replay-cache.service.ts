import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { Clock } from '../time/clock.js';
import { expiringCache, type ExpiringCache } from '../time/expiring-cache.js';
import { SharedValues } from './shared-values.service.js';
import { UnwrittenMarks, type ReplayKind } from './unwritten-marks.js';

/** Entries of each kind in one process. */
const MAX = 100_000;

/**
 * By how much the date of the host may be set back, in ms. What was sealed is valid for so much longer then, and so the
 * record that denies it must be kept for so much longer.
 */
export const CLOCK_MARGIN = 7_200_000;

/**
 * Records what must not be used again: in this process the last 100,000 of a kind, across processes with a `store`. What
 * the store does not take is written again until it does. Lifetimes are measured by the monotonic clock.
 */
@Injectable()
export class ReplayCache implements OnModuleDestroy {
  readonly #caches: Readonly<Record<ReplayKind, ExpiringCache<true>>>;
  readonly #shared: SharedValues;
  readonly #unwritten: UnwrittenMarks;
  readonly #clock: Clock;

  constructor(@Inject(SharedValues) shared: SharedValues, @Inject(Clock) clock: Clock) {
    this.#shared = shared;
    this.#clock = clock;
    this.#unwritten = new UnwrittenMarks(shared, clock);
    this.#caches = {
      'spent-state': expiringCache(clock, { max: MAX }),
      'denied-identity': expiringCache(clock, { max: MAX }),
    };
  }

  /** Records `name` for `ttl` ms. Answers false where it is recorded already, here or in another process. */
  async claim(kind: ReplayKind, name: string, ttl: number): Promise<boolean> {
    const cache = this.#caches[kind];
    if (cache.has(name)) {
      return false;
    }
    const lifetime = Math.max(1, ttl);
    cache.set(name, true, { ttl: lifetime });
    return !this.#shared.enabled || this.#claimShared(kind, name, lifetime);
  }

  /** True where `name` is recorded, here or in another process. */
  async has(kind: ReplayKind, name: string): Promise<boolean> {
    if (this.#caches[kind].has(name)) {
      return true;
    }
    return this.#shared.enabled && (await this.#shared.get(kind, name)) === true;
  }

  onModuleDestroy(): Promise<void> {
    return this.#unwritten.close();
  }

  async #claimShared(kind: ReplayKind, name: string, lifetime: number): Promise<boolean> {
    const mark = { kind, name, until: this.#clock.now() + lifetime };
    this.#unwritten.add(mark);
    // Only a state must be unused. A logout replaces whatever the store has under its key.
    const ifAbsent = kind === 'spent-state';
    const isSet = await this.#shared.set(kind, name, true, lifetime, { ifAbsent });
    if (isSet === true || (ifAbsent && isSet === false)) {
      this.#unwritten.remove(mark);
    } else {
      this.#unwritten.writeLater();
    }
    return !ifAbsent || isSet !== false;
  }
}
