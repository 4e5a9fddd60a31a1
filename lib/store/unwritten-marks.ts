import { setTimeout as pause } from 'node:timers/promises';
import { Logger } from '@nestjs/common';
import type { Clock } from '../time/clock.js';
import { LogThrottle } from '../time/log-throttle.js';
import { withTimeout } from '../time/with-timeout.js';
import type { SharedValues } from './shared-values.service.js';

/**
 * What is recorded: an identity that was logged out, a logout at the provider, a login state or a logout token that was used.
 */
export type ReplayKind = 'denied-identity' | 'logged-out' | 'spent-state' | 'spent-logout-token';

/** The time of a logout in ms since 1970, or true. */
export type MarkValue = true | number;

/** A record for the shared store. */
export interface Mark {
  kind: ReplayKind;
  name: string;
  value: MarkValue;
  /** {@link Clock.now} at which it is no longer needed. */
  until: number;
}

/** Marks of each kind that are kept. Beyond it, the oldest is dropped. */
export const MAX_UNWRITTEN = 100_000;

/** Marks that are written at the same time. */
const BATCH = 200;

/** How often the timer checks whether the next attempt is due, in ms. */
const TICK = 200;

/** Time limit of the last attempts, when the application is closed, in ms. */
const CLOSE_WAIT = 1_000;

/** Time between two of the last attempts, in ms. */
const CLOSE_PAUSE = 50;

/** Shortest time between two warnings, in ms. */
const WARN_EVERY = 60_000;

/**
 * Marks that the shared store has not taken. They are written again, with back-off, until the store takes them or they
 * are no longer needed, and once more when the application is closed.
 */
export class UnwrittenMarks {
  readonly #shared: SharedValues;
  readonly #clock: Clock;
  readonly #logger = new Logger('nestjs-exhibitor');
  readonly #marks: Readonly<Record<ReplayKind, Map<string, Mark>>> = {
    'denied-identity': new Map(),
    'logged-out': new Map(),
    'spent-state': new Map(),
    'spent-logout-token': new Map(),
  };
  #timer: NodeJS.Timeout | undefined;
  #isWriting = false;
  #isClosed = false;
  #failures = 0;
  #nextAt = 0;
  readonly #throttle: LogThrottle;

  constructor(shared: SharedValues, clock: Clock) {
    this.#shared = shared;
    this.#clock = clock;
    this.#throttle = new LogThrottle(clock, WARN_EVERY);
  }

  /** Keeps a mark until it is removed. Called before the first attempt, so that a close in between does not lose it. */
  add(mark: Mark): void {
    const marks = this.#marks[mark.kind];
    marks.set(mark.name, mark);
    const [oldest] = marks.keys();
    if (marks.size > MAX_UNWRITTEN && oldest !== undefined) {
      marks.delete(oldest);
    }
  }

  /** Removes a mark, unless a newer one of this name was added meanwhile. */
  remove(mark: Mark): void {
    const marks = this.#marks[mark.kind];
    if (marks.get(mark.name) === mark) {
      marks.delete(mark.name);
    }
  }

  /** The first attempt failed: writes again later. */
  writeLater(): void {
    this.#warn();
    if (this.#timer !== undefined || this.#isClosed) {
      return;
    }
    this.#nextAt = this.#clock.now() + retryDelay(this.#failures, this.#clock.random());
    this.#timer = setInterval(() => void this.#tick(), TICK);
    // Pending marks must not delay the exit of the process.
    this.#timer.unref();
  }

  /** The last attempts, for a second at most. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#stop();
    const end = new AbortController();
    const writeAll = async (): Promise<void> => {
      while (!end.signal.aborted && this.#count > 0) {
        if (!(await this.#writeBatch())) {
          await pause(CLOSE_PAUSE);
        }
      }
    };
    await withTimeout(CLOSE_WAIT, writeAll).catch(() => undefined);
    end.abort();
    const lost = this.#logouts;
    if (lost > 0) {
      this.#logger.warn(`${lost} logout(s) were not written to the shared store before the close`);
    }
  }

  async #tick(): Promise<void> {
    if (this.#isWriting || this.#clock.now() < this.#nextAt) {
      return;
    }
    this.#isWriting = true;
    const isWritten = await this.#writeBatch();
    this.#isWriting = false;
    if (isWritten) {
      this.#failures = 0;
      // The timer writes the next batch.
      if (this.#count === 0) {
        this.#stop();
      }
      return;
    }
    this.#failures += 1;
    this.#nextAt = this.#clock.now() + retryDelay(this.#failures, this.#clock.random());
    this.#warn();
  }

  get #logouts(): number {
    return this.#marks['denied-identity'].size + this.#marks['logged-out'].size;
  }

  get #count(): number {
    return Object.values(this.#marks).reduce((count, { size }) => count + size, 0);
  }

  /** Writes the next marks. Answers whether the store took all of them. */
  async #writeBatch(): Promise<boolean> {
    const written = await Promise.all(this.#nextBatch().map((mark) => this.#write(mark)));
    return !written.includes(false);
  }

  async #write(mark: Mark): Promise<boolean> {
    const { kind, name, value, until } = mark;
    const isWritten = await this.#shared.insist(kind, name, value, Math.max(1, until - this.#clock.now()));
    if (isWritten) {
      this.remove(mark);
    }
    return isWritten;
  }

  /** The oldest marks, logouts first. Those that are no longer needed leave. */
  #nextBatch(): Mark[] {
    const now = this.#clock.now();
    const batch: Mark[] = [];
    for (const marks of Object.values(this.#marks)) {
      for (const mark of marks.values()) {
        if (batch.length === BATCH) {
          return batch;
        }
        if (mark.until <= now) {
          this.remove(mark);
        } else {
          batch.push(mark);
        }
      }
    }
    return batch;
  }

  #warn(): void {
    const count = this.#logouts;
    if (count === 0 || !this.#throttle.allows()) {
      return;
    }
    this.#logger.warn(
      `${count} logout(s) could not be written to the shared store; until they are, other processes accept these identities`,
    );
  }

  #stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
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
