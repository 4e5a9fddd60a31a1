import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { Clock } from '../time/clock.js';
import { expiringCache, type ExpiringCache } from '../time/expiring-cache.js';
import { MarkReads } from './mark-reads.js';
import { SharedValues } from './shared-values.service.js';
import { UnwrittenMarks, type Mark, type MarkValue, type ReplayKind } from './unwritten-marks.js';

export type { MarkValue } from './unwritten-marks.js';

/** Names a record. */
export type MarkName = Pick<Mark, 'kind' | 'name'>;

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
  readonly #caches: Readonly<Record<ReplayKind, ExpiringCache<true | { value: MarkValue }>>>;
  readonly #shared: SharedValues;
  readonly #unwritten: UnwrittenMarks;
  readonly #reads: MarkReads;
  readonly #clock: Clock;

  constructor(@Inject(SharedValues) shared: SharedValues, @Inject(Clock) clock: Clock) {
    this.#shared = shared;
    this.#clock = clock;
    this.#unwritten = new UnwrittenMarks(shared, clock);
    this.#reads = new MarkReads(shared);
    this.#caches = {
      'denied-identity': expiringCache(clock, { max: MAX }),
      'logged-out': expiringCache(clock, { max: MAX }),
      'spent-state': expiringCache(clock, { max: MAX }),
      'spent-logout-token': expiringCache(clock, { max: MAX }),
    };
  }

  /** True where records are shared between processes. */
  get isShared(): boolean {
    return this.#shared.enabled;
  }

  /** Records `name` for `ttl` ms. Answers false where it is recorded already, here or in another process. */
  async claim(kind: ReplayKind, name: string, ttl: number): Promise<boolean> {
    const cache = this.#caches[kind];
    if (cache.has(name)) {
      return false;
    }
    const lifetime = Math.max(1, ttl);
    cache.set(name, true, { ttl: lifetime });
    // Only what is used once must be absent. A logout replaces whatever the store has under its key.
    const ifAbsent = kind === 'spent-state' || kind === 'spent-logout-token';
    return this.#write({ kind, name, value: true, until: this.#clock.now() + lifetime }, ifAbsent);
  }

  /** Records the time of a logout for `ttl` ms. A later one that is recorded already stays. */
  async recordLogout(name: string, at: number, ttl: number): Promise<void> {
    const mark = { kind: 'logged-out', name } as const;
    const known = this.recordedHere(mark);
    // Valid here before the store is asked, which may be slow.
    this.#caches[mark.kind].set(name, { value: latest(at, known) }, { ttl });
    const value = latest(at, await this.recorded(mark));
    this.#caches[mark.kind].set(name, { value }, { ttl });
    await this.#write({ ...mark, value, until: this.#clock.now() + ttl }, false);
  }

  /** What is recorded in this process. */
  recordedHere({ kind, name }: MarkName): MarkValue | undefined {
    const entry = this.#caches[kind].get(name);
    return typeof entry === 'object' ? entry.value : entry;
  }

  /** True where anything of this kind is recorded in this process. */
  hasAny(kind: ReplayKind): boolean {
    return this.#caches[kind].size > 0;
  }

  /** What is recorded here or in another process; the later of two logouts. */
  async recorded(mark: MarkName): Promise<MarkValue | undefined> {
    return (await this.ask(mark)).value;
  }

  /** As {@link recorded}; says whether the store answered, so that the absence of a record is certain. */
  async ask(mark: MarkName): Promise<{ value: MarkValue | undefined; isCertain: boolean }> {
    const here = this.recordedHere(mark);
    if (here === true || !this.#shared.enabled) {
      return { value: here, isCertain: true };
    }
    const stored = await this.#reads.read(mark);
    if (stored === undefined) {
      return { value: here, isCertain: false };
    }
    this.#shared.tell(mark.kind, stored.value === undefined ? 'miss' : 'hit');
    return { value: laterOf(stored.value, here), isCertain: true };
  }

  onModuleDestroy(): Promise<void> {
    return this.#unwritten.close();
  }

  /** Answers false where the store has a mark of this name and it had to be absent. */
  async #write(mark: Mark, ifAbsent: boolean): Promise<boolean> {
    if (!this.#shared.enabled) {
      return true;
    }
    this.#unwritten.add(mark);
    const { kind, name, value, until } = mark;
    const isSet = await this.#shared.set(kind, name, value, until - this.#clock.now(), { ifAbsent });
    if (isSet === true || (ifAbsent && isSet === false)) {
      this.#unwritten.remove(mark);
    } else {
      this.#unwritten.writeLater();
    }
    return !ifAbsent || isSet !== false;
  }
}

function laterOf(stored: unknown, here: MarkValue | undefined): MarkValue | undefined {
  if (stored === true) {
    return true;
  }
  return typeof stored === 'number' ? latest(stored, here) : here;
}

function latest(at: number, known: MarkValue | undefined): number {
  return typeof known === 'number' ? Math.max(at, known) : at;
}
