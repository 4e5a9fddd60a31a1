import { Inject, Injectable } from '@nestjs/common';
import { Clock } from '../time/clock.js';
import { FairCache } from '../time/fair-cache.js';
import { Outbox, type OutboxEntry } from './outbox.service.js';
import { SharedValues } from './shared-values.service.js';

/**
 * What is recorded: an identity that was logged out, a logout at the provider, or a logout token that was used.
 */
export type ReplayKind = 'denied-identity' | 'logged-out' | 'spent-logout-token';

export interface ReplayName {
  readonly kind: ReplayKind;
  readonly name: string;
}

/** The time of a logout in ms since 1970, or true. */
export type ReplayValue = true | number;

export interface ReplayAnswer {
  /** The later of two logouts; `undefined` where nothing is recorded. */
  readonly value: ReplayValue | undefined;
  /** False where the store did not answer: another process may have recorded it. */
  readonly isCertain: boolean;
}

/** Entries of each kind in one process. Tenants share them fairly: a flood of logouts of one pushes out none of another. */
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
export class ReplayCache {
  private readonly caches: Readonly<Record<ReplayKind, FairCache<ReplayValue>>>;

  constructor(
    @Inject(SharedValues) private readonly shared: SharedValues,
    @Inject(Outbox) private readonly outbox: Outbox,
    @Inject(Clock) private readonly clock: Clock,
  ) {
    this.caches = {
      'denied-identity': new FairCache(clock, MAX),
      'logged-out': new FairCache(clock, MAX),
      'spent-logout-token': new FairCache(clock, MAX),
    };
  }

  /** True where records are shared between processes. */
  get isShared(): boolean {
    return this.shared.enabled;
  }

  /**
   * Records a name for `ttl` ms. Answers false where it is recorded already: here, or what is used once also in another process.
   *
   * @param tenant key of the tenant that it is about
   */
  async record({ kind, name }: ReplayName, tenant: string, ttl: number): Promise<boolean> {
    const cache = this.caches[kind];
    if (cache.get(name) !== undefined) {
      return false;
    }
    const lifetime = Math.max(1, ttl);
    cache.set(name, true, { tenant, ttl: lifetime });
    // Only what is used once must be absent. A logout replaces whatever the store has under its key.
    const ifAbsent = kind === 'spent-logout-token';
    const entry: OutboxEntry = { kind, name, tenant, value: true, until: this.clock.now() + lifetime };
    return this.outbox.write(entry, { ifAbsent });
  }

  /** Records the time of a logout for `ttl` ms. A later one that is recorded already stays. */
  async recordLogout(name: string, tenant: string, at: number, ttl: number): Promise<void> {
    const logout = { kind: 'logged-out', name } as const;
    // Valid here before the store is asked, which may be slow.
    this.caches[logout.kind].set(name, latest(at, this.recordedHere(logout)), { tenant, ttl });
    const value = latest(at, (await this.find(logout)).value);
    this.caches[logout.kind].set(name, value, { tenant, ttl });
    await this.outbox.write({ ...logout, tenant, value, until: this.clock.now() + ttl });
  }

  /** What is recorded in this process. */
  recordedHere({ kind, name }: ReplayName): ReplayValue | undefined {
    return this.caches[kind].get(name);
  }

  /** True where anything of this kind is recorded in this process. */
  hasAny(kind: ReplayKind): boolean {
    return this.caches[kind].size > 0;
  }

  /** What is recorded here or in another process. */
  async find(name: ReplayName): Promise<ReplayAnswer> {
    const here = this.recordedHere(name);
    if (here === true || !this.shared.enabled) {
      return { value: here, isCertain: true };
    }
    const stored = await this.shared.read(name.kind, name.name);
    if (stored === undefined) {
      return { value: here, isCertain: false };
    }
    this.shared.publishOutcome(name.kind, stored.value === undefined ? 'miss' : 'hit');
    return { value: laterOf(stored.value, here), isCertain: true };
  }
}

function laterOf(stored: unknown, here: ReplayValue | undefined): ReplayValue | undefined {
  if (stored === true) {
    return true;
  }
  return typeof stored === 'number' ? latest(stored, here) : here;
}

function latest(at: number, known: ReplayValue | undefined): number {
  return typeof known === 'number' ? Math.max(at, known) : at;
}
