import { randomBytes } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { Clock } from '../time/clock.js';
import { expiringCache, type ExpiringCache } from '../time/expiring-cache.js';
import { PrivateValues } from './private-values.service.js';

const KIND = 'generation';

/** Age in ms up to which a generation that was read counts as current. An invalidation reaches every process within it. */
const CURRENT = 1_000;

/** Age in ms from which it is read again in the background, so that calls seldom wait for it. */
const RENEW = 500;

/** Generations in memory. One that was displaced is read again. */
const MAX = 50_000;

/** Generations that wait for the store to answer again. Beyond it, the oldest is dropped. */
const MAX_UNWRITTEN = 10_000;

/** Where the store was never reached. Differs from every generation in the store. */
const UNKNOWN = '?';

interface Generation {
  value: string;
  /** {@link Clock.now} when the last read of it began. */
  readAt: number;
  reading?: Promise<void>;
}

/** Values of several generations, as one text to compare. */
export interface Stamp {
  readonly text: string;
  /** False without a store, and where the store was never reached. */
  readonly isKnown: boolean;
  /** {@link Clock.now} from which {@link Generations.current} must be asked again. */
  readonly recheckAt: number;
}

/** Where nothing is shared. */
export const UNSHARED: Stamp = { text: '', isKnown: false, recheckAt: Number.POSITIVE_INFINITY };

/**
 * Generations: random values in the shared store that are replaced to invalidate what many processes hold. Whoever keeps
 * something notes the generations that it belongs to, read before it was made, and uses it only while they are the same.
 *
 * A generation that was never replaced, or long ago, has no value in the store. It must outlive what it invalidates.
 */
@Injectable()
export class Generations {
  readonly #values: PrivateValues;
  readonly #clock: Clock;
  readonly #known: ExpiringCache<Generation>;
  /** What the store did not take, in the order of the replacements. */
  readonly #unwritten = new Map<string, { value: string; until: number }>();
  #writing: Promise<boolean> | undefined;

  constructor(@Inject(PrivateValues) values: PrivateValues, @Inject(Clock) clock: Clock) {
    this.#values = values;
    this.#clock = clock;
    this.#known = expiringCache(clock, { max: MAX });
  }

  /** The values, where all of them were read within the last second. Synchronous and without timers. */
  current(names: readonly string[]): Stamp | undefined {
    if (!this.#values.enabled) {
      return UNSHARED;
    }
    const now = this.#clock.now();
    let [text, oldest] = ['', now];
    for (const name of names) {
      const known = this.#known.get(name);
      if (known === undefined || now - known.readAt >= CURRENT) {
        return undefined;
      }
      if (now - known.readAt >= RENEW) {
        void this.#read(name, known);
      }
      text += `${known.value} `;
      oldest = Math.min(oldest, known.readAt);
    }
    return { text, isKnown: !text.includes(UNKNOWN), recheckAt: oldest + RENEW };
  }

  /** As {@link current}; reads those that are not current. While the store is down, the values as they were known last. */
  async stamp(names: readonly string[]): Promise<Stamp> {
    const current = this.current(names);
    if (current !== undefined) {
      return current;
    }
    const now = this.#clock.now();
    const generations = names.map((name) => [name, this.#generation(name)] as const);
    await Promise.all(
      generations.map(([name, known]) =>
        now - known.readAt < CURRENT ? undefined : this.#read(name, known),
      ),
    );
    const text = generations.map(([, { value }]) => `${value} `).join('');
    return {
      text,
      isKnown: !text.includes(UNKNOWN),
      recheckAt: Math.min(...generations.map(([, { readAt }]) => readAt)) + RENEW,
    };
  }

  /** The value in the store now, whatever was read before. */
  async reread(name: string): Promise<string | undefined> {
    const found = await this.#find(name);
    return found === UNKNOWN ? undefined : found;
  }

  /**
   * Replaces a generation, for `ttl` ms. This process uses the new value at once. While the store is down, it is written again
   * before generations are next read. Replacements are written in their order. Answers the new value.
   */
  async replace(name: string, ttl: number): Promise<string> {
    const value = randomBytes(9).toString('base64url');
    // A read under way may answer the former value.
    this.#known.set(name, { value, readAt: Number.NEGATIVE_INFINITY });
    if (!this.#values.enabled) {
      return value;
    }
    const mark = { value, until: this.#clock.now() + ttl };
    this.#unwritten.delete(name);
    this.#unwritten.set(name, mark);
    const [oldest] = this.#unwritten.keys();
    if (this.#unwritten.size > MAX_UNWRITTEN && oldest !== undefined) {
      this.#unwritten.delete(oldest);
    }
    // Writing that was under way may have ended before it came to this one.
    while ((await this.#write()) && this.#unwritten.get(name) === mark) {
      continue;
    }
    return value;
  }

  #generation(name: string): Generation {
    const known = this.#known.get(name) ?? { value: UNKNOWN, readAt: Number.NEGATIVE_INFINITY };
    this.#known.set(name, known);
    return known;
  }

  #read(name: string, known: Generation): Promise<void> {
    known.reading ??= this.#readNow(name, known).finally(() => {
      known.reading = undefined;
    });
    return known.reading;
  }

  async #readNow(name: string, known: Generation): Promise<void> {
    const startedAt = this.#clock.now();
    const value = await this.#find(name);
    if (value === UNKNOWN) {
      // While the store is down, the last value is used, and the store is asked once a second.
      known.readAt = this.#clock.now();
      return;
    }
    known.value = value;
    known.readAt = startedAt;
  }

  async #find(name: string): Promise<string> {
    if (this.#unwritten.size > 0) {
      await this.#write();
    }
    const found = await this.#values.find(KIND, name);
    if (found === undefined || this.#unwritten.has(name)) {
      return UNKNOWN;
    }
    // While secrets are rotated there may be one of each secret, in an order that differs between processes.
    return found
      .filter((one) => typeof one === 'string')
      .toSorted()
      .join('+');
  }

  /** Writes all that is unwritten. Answers false where the store did not take it. */
  #write(): Promise<boolean> {
    this.#writing ??= this.#writeInOrder().finally(() => {
      this.#writing = undefined;
    });
    return this.#writing;
  }

  async #writeInOrder(): Promise<boolean> {
    for (const [name, mark] of this.#unwritten) {
      const left = mark.until - this.#clock.now();
      if (left > 0 && (await this.#values.set(KIND, name, mark.value, left)) !== true) {
        return false;
      }
      if (this.#unwritten.get(name) === mark) {
        this.#unwritten.delete(name);
      }
    }
    return true;
  }
}
