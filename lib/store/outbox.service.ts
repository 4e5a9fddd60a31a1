import { setTimeout as pause } from 'node:timers/promises';
import { Inject, Injectable, type BeforeApplicationShutdown } from '@nestjs/common';
import { lostLogouts, unwrittenLogouts } from '../problems/host-problems.js';
import { ThrottledLog } from '../problems/throttled-log.js';
import { Clock } from '../time/clock.js';
import { FairCache } from '../time/fair-cache.js';
import { withTimeout } from '../time/with-timeout.js';
import { SharedValues } from './shared-values.service.js';

/** What must reach the store, even if it is down now. */
export type OutboxKind = 'denied-identity' | 'logged-out' | 'generation' | 'spent-logout-token';

export interface OutboxEntry {
  readonly kind: OutboxKind;
  readonly name: string;
  readonly value: unknown;
  /** {@link Clock.now} at which it is no longer needed. */
  readonly until: number;
  /** Key of the tenant that it is about. */
  readonly tenant: string;
}

/** Entries of each kind that are kept. */
export const MAX_ENTRIES = 100_000;

const BATCH = 200;

/** Time between two batches while the store takes them, in ms. While it does not, the clock is read as often. */
const PACE = 200;

/** Time limit of the last attempts, when the application is closed, in ms. */
const CLOSE_WAIT = 1_000;

/** Time between two of the last attempts, in ms. */
const CLOSE_PAUSE = 50;

/** Shortest time between two warnings, in ms. */
const WARN_EVERY = 60_000;

/**
 * What the shared store has not taken. It is written again, with back-off, until the store takes it or it is no longer needed,
 * and for a second when the application is closed. So a logout is lost only with its process, with the data of the store, or
 * beyond {@link MAX_ENTRIES}.
 */
@Injectable()
export class Outbox implements BeforeApplicationShutdown {
  /** By kind, the most important one first, and by name. No kind displaces entries of another. */
  private readonly entries: Readonly<Record<OutboxKind, FairCache<OutboxEntry>>>;
  /**
   * Entries whose first attempt is under way. A batch leaves them out: with `ifAbsent`, the attempt would take what the batch has
   * written for a value of another process.
   */
  private readonly firstAttempts = new Set<OutboxEntry>();
  private readonly log: ThrottledLog;
  private isRetrying = false;
  private isClosed = false;

  constructor(
    @Inject(SharedValues) private readonly values: SharedValues,
    @Inject(Clock) private readonly clock: Clock,
  ) {
    this.log = new ThrottledLog(clock, WARN_EVERY);
    this.entries = {
      'denied-identity': new FairCache(clock, MAX_ENTRIES),
      'logged-out': new FairCache(clock, MAX_ENTRIES),
      generation: new FairCache(clock, MAX_ENTRIES),
      'spent-logout-token': new FairCache(clock, MAX_ENTRIES),
    };
  }

  /**
   * Writes an entry now, else later. With `ifAbsent`, answers false where the store has a value of this name already; true in
   * all other cases, also without a store.
   */
  async write(entry: OutboxEntry, { ifAbsent = false } = {}): Promise<boolean> {
    if (!this.values.enabled) {
      return true;
    }
    const { kind, name, tenant, value, until } = entry;
    // Before the first attempt, so that a close in between does not lose it.
    this.entries[kind].set(name, entry, { tenant });
    this.firstAttempts.add(entry);
    const isSet = await this.values.set(kind, name, value, until - this.clock.now(), { ifAbsent });
    this.firstAttempts.delete(entry);
    const existed = ifAbsent && isSet === false;
    if (isSet === true || existed) {
      this.remove(entry);
    } else {
      this.warn();
      void this.retry();
    }
    return !existed;
  }

  /** True while a value is not in the store. */
  has(kind: OutboxKind, name: string): boolean {
    return this.entries[kind].get(name) !== undefined;
  }

  /** The last attempts, for a second at most. */
  async beforeApplicationShutdown(): Promise<void> {
    this.isClosed = true;
    const end = new AbortController();
    const writeAll = async (): Promise<void> => {
      while (!end.signal.aborted && this.hasEntries) {
        if (!(await this.writeBatch())) {
          await pause(CLOSE_PAUSE);
        }
      }
    };
    await withTimeout(CLOSE_WAIT, writeAll).catch(() => undefined);
    end.abort();
    const lost = this.logouts;
    if (lost > 0) {
      this.log.warn(lostLogouts(lost), 'close');
    }
  }

  private async retry(): Promise<void> {
    if (this.isRetrying) {
      return;
    }
    this.isRetrying = true;
    let failures = 0;
    let nextAt = this.clock.now() + retryDelay(failures, this.clock.random());
    while (!this.isClosed && this.hasEntries) {
      // What waits must not delay the exit of the process.
      await pause(PACE, undefined, { ref: false });
      if (this.clock.now() < nextAt) {
        continue;
      }
      if (await this.writeBatch()) {
        failures = 0;
        continue;
      }
      failures += 1;
      nextAt = this.clock.now() + retryDelay(failures, this.clock.random());
      this.warn();
    }
    this.isRetrying = false;
  }

  private get hasEntries(): boolean {
    return Object.values(this.entries).some(({ size }) => size > 0);
  }

  private get logouts(): number {
    return this.entries['denied-identity'].size + this.entries['logged-out'].size;
  }

  /** Writes the next entries. Answers whether the store took all of them. */
  private async writeBatch(): Promise<boolean> {
    const written = await Promise.all(this.nextBatch().map((entry) => this.writeAgain(entry)));
    return !written.includes(false);
  }

  /** Also where there is a value by now: another process wrote it for the same reason. The later time of two logouts stays. */
  private async writeAgain(entry: OutboxEntry): Promise<boolean> {
    const { kind, name, value, until } = entry;
    const stored = typeof value === 'number' ? (await this.values.read(kind, name))?.value : undefined;
    if (typeof stored === 'number' && stored >= Number(value)) {
      this.remove(entry);
      return true;
    }
    const left = Math.max(1, until - this.clock.now());
    const isSet = await this.values.set(kind, name, value, left, { evenAtRest: true });
    if (isSet === true) {
      this.remove(entry);
    }
    return isSet === true;
  }

  /** Removes this entry, but not a newer one of the same name. */
  private remove(entry: OutboxEntry): void {
    const ofKind = this.entries[entry.kind];
    if (ofKind.get(entry.name) === entry) {
      ofKind.delete(entry.name);
    }
  }

  /** The most important entries, of each tenant in turn. Those that are no longer needed leave. */
  private nextBatch(): OutboxEntry[] {
    const now = this.clock.now();
    const batch: OutboxEntry[] = [];
    for (const ofKind of Object.values(this.entries)) {
      for (const entry of ofKind.roundRobin()) {
        if (batch.length === BATCH) {
          return batch;
        }
        if (entry.until <= now) {
          ofKind.delete(entry.name);
        } else if (this.isClosed || !this.firstAttempts.has(entry)) {
          batch.push(entry);
        }
      }
    }
    return batch;
  }

  private warn(): void {
    const count = this.logouts;
    if (count > 0) {
      this.log.warn(unwrittenLogouts(count));
    }
  }
}

/**
 * Time before the next attempt, in ms: doubles from 250 ms to 10 s, of which the last half is random.
 *
 * @param chance random number from 0 to 1
 */
export function retryDelay(failures: number, chance: number): number {
  const longest = Math.min(10_000, 250 * 2 ** Math.min(failures, 20));
  return (longest * (1 + chance)) / 2;
}
