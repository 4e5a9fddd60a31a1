import type { Subject } from 'rxjs';
import type { ExhibitorSettings } from '../options/exhibitor-settings.js';
import type { TenantSource } from '../options/tenant-options.interface.js';
import { tenantSourceFails } from '../problems/host-problems.js';
import { ThrottledLog } from '../problems/throttled-log.js';
import { tenantForgotten, type Generation, type Generations } from '../store/generations.service.js';
import type { Clock } from '../time/clock.js';
import { FairCache } from '../time/fair-cache.js';
import { withTimeout } from '../time/with-timeout.js';
import { isSourceFailure, readTenant } from './read-tenant.js';
import type { Tenant } from './tenant.js';

/**
 * Unknown keys are remembered in a cache of their own, so that random keys remove no known tenant; and briefly, since the
 * tenant may be created.
 */
const UNKNOWN = { ttl: 5_000, max: 10_000 };

/** Longest wait in ms for new options while there are last good ones. A slower read goes on in the background. */
const PATIENCE = 1_000;

/** Time in ms after a failure of the source before it is asked again for a tenant with last good options. */
const RETRY_AFTER = 5_000;

/** Shortest time between two warnings, in ms. */
const WARN_EVERY = 60_000;

interface KnownTenant {
  tenant: Tenant;
  /** As it was before the source was asked. */
  generation: Generation;
  /** {@link Clock.now} until which the source is not asked again. */
  freshUntil: number;
  /** {@link Clock.now} until which these options are used where the source fails. */
  lastGoodUntil: number;
  /** {@link Clock.now} when the source failed or was slow; `undefined` where its last answer came in time. */
  failedAt?: number;
}

/**
 * Whether the source is asked for a known tenant, and whether a call waits for its answer. One that another process forgot is not
 * known any more; a key without a tenant is not asked for within {@link UNKNOWN}.
 *
 * | state        | its options                          | the source is asked | a call                                         |
 * | ------------ | ------------------------------------ | ------------------- | ---------------------------------------------- |
 * | `fresh`      | are new enough                       | no                  | takes them                                     |
 * | `due`        | are old                              | yes                 | waits; takes the last good ones after 1 s      |
 * | `failing`    | are old, and the source failed       | yes                 | takes the last good ones: it may fail again    |
 * | `paused`     | as `failing`, less than 5 s ago      | no                  | takes the last good ones                       |
 * | `outdated`   | are too old to be used               | yes                 | waits for the answer, or fails with the source |
 */
function stateOf(known: KnownTenant, now: number): 'fresh' | 'due' | 'failing' | 'paused' | 'outdated' {
  const { freshUntil, lastGoodUntil, failedAt } = known;
  if (now < freshUntil) {
    return 'fresh';
  }
  if (now >= lastGoodUntil) {
    return 'outdated';
  }
  if (failedAt === undefined) {
    return 'due';
  }
  return now < failedAt + RETRY_AFTER ? 'paused' : 'failing';
}

/**
 * The tenants of a {@link TenantSource}. Concurrent requests for one tenant share one call of the source. While the source
 * fails, the last good options of a tenant are used (`tenantCache.staleIfError`).
 */
export class RunTimeTenants {
  readonly #log: ThrottledLog;
  readonly #known: FairCache<KnownTenant>;
  readonly #unknown: FairCache<Pick<KnownTenant, 'generation'>>;
  /** Calls of the source under way, with the {@link Generation.id} before them. */
  readonly #reads = new Map<string, { read: Promise<Tenant | undefined>; generation: string }>();

  /** @param forgotten is told of each tenant that was forgotten, here or in another process */
  constructor(
    private readonly source: TenantSource,
    private readonly settings: ExhibitorSettings,
    private readonly clock: Clock,
    private readonly generations: Generations,
    private readonly forgotten: Subject<Tenant>,
  ) {
    this.#log = new ThrottledLog(clock, WARN_EVERY);
    this.#known = new FairCache(clock, settings.tenantCache.max);
    this.#unknown = new FairCache(clock, UNKNOWN.max);
  }

  /** The tenant of this key, where its options need not be read again. */
  fresh(key: string): Tenant | undefined {
    const known = this.#known.get(key);
    if (known === undefined || stateOf(known, this.clock.now()) !== 'fresh') {
      return undefined;
    }
    const now = this.generations.current([tenantForgotten(key)]);
    return now?.id === known.generation.id ? known.tenant : undefined;
  }

  peek(key: string): Tenant | undefined {
    return this.#known.peek(key)?.tenant;
  }

  /** The tenant of this key; `undefined` where the source knows none. */
  async find(key: string): Promise<Tenant | undefined> {
    const names = [tenantForgotten(key)];
    // Without an await where it is in memory: the source is then asked in the turn of the call.
    const generation = this.generations.current(names) ?? (await this.generations.read(names));
    this.#dropIfForgotten(key, generation);
    if (this.#unknown.peek(key) !== undefined) {
      return undefined;
    }
    const known = this.#known.get(key);
    const state = known && stateOf(known, this.clock.now());
    if (known === undefined || state === 'outdated') {
      return this.#read(key, generation);
    }
    if (state === 'due') {
      return this.#newOrLastGood(this.#read(key, generation), known);
    }
    if (state === 'failing') {
      void this.#read(key, generation);
    }
    return known.tenant;
  }

  /** Drops a tenant in this process. */
  forget(key: string): void {
    const tenant = this.peek(key);
    this.#known.delete(key);
    this.#unknown.delete(key);
    this.#reads.delete(key);
    if (tenant !== undefined) {
      this.forgotten.next(tenant);
    }
  }

  /** The answer to a read, or the last good options where the source fails or is slow. */
  async #newOrLastGood(read: Promise<Tenant | undefined>, known: KnownTenant): Promise<Tenant | undefined> {
    try {
      return await withTimeout(Math.min(PATIENCE, this.settings.http.deadline / 2), () => read);
    } catch (error) {
      if (!isSourceFailure(error)) {
        throw error;
      }
      known.failedAt ??= this.clock.now();
      return known.tenant;
    }
  }

  /** Asks the source; joins a call that is under way, unless the tenant was forgotten after its beginning. */
  #read(key: string, generation: Generation): Promise<Tenant | undefined> {
    const running = this.#reads.get(key);
    if (running?.generation === generation.id) {
      return running.read;
    }
    const read = readTenant(this.source, key, this.settings, this.peek(key), this.#log);
    this.#reads.set(key, { read, generation: generation.id });
    const end = (note: () => void): void => {
      // Not where the tenant was forgotten meanwhile: the answer may be outdated.
      if (this.#reads.get(key)?.read === read) {
        this.#reads.delete(key);
        note();
      }
    };
    read.then(
      (tenant) => end(() => this.#keep(key, tenant, generation)),
      (error: unknown) => end(() => this.#noteFailure(key, error)),
    );
    return read;
  }

  #keep(key: string, tenant: Tenant | undefined, generation: Generation): void {
    if (tenant === undefined) {
      this.#known.delete(key);
      this.#unknown.set(key, { generation }, { ttl: UNKNOWN.ttl });
      return;
    }
    const { ttl, staleIfError } = this.settings.tenantCache;
    const freshUntil = this.clock.now() + ttl;
    this.#known.set(key, { tenant, generation, freshUntil, lastGoodUntil: freshUntil + staleIfError });
  }

  #noteFailure(key: string, error: unknown): void {
    const known = this.#known.peek(key);
    if (known === undefined) {
      return;
    }
    known.failedAt = isSourceFailure(error) ? this.clock.now() : undefined;
    if (known.failedAt !== undefined) {
      this.#log.warn(tenantSourceFails(key, this.settings.tenantCache.staleIfError));
    }
  }

  /** Drops what was read of a tenant before another process forgot it. */
  #dropIfForgotten(key: string, now: Generation): void {
    const answer = this.#known.peek(key) ?? this.#unknown.peek(key);
    if (answer === undefined || !now.isKnown) {
      return;
    }
    // An unset generation has outlived what it invalidated.
    if (now.isUnset || now.id === answer.generation.id) {
      answer.generation = now;
    } else {
      this.forget(key);
    }
  }
}
