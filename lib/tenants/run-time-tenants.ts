import type { TenantSource } from '../options/tenant-options.interface.js';
import { tenantSourceFails } from '../problems/tenant-problems.js';
import { ThrottledLog } from '../problems/throttled-log.js';
import type { Generation } from '../store/generations.service.js';
import type { Clock } from '../time/clock.js';
import { expiringCache, type ExpiringCache } from '../time/expiring-cache.js';
import { withTimeout } from '../time/with-timeout.js';
import { isForgotten, type ForgottenTenants } from './forgotten-tenants.js';
import { isSourceFailure, readTenant } from './read-tenant.js';
import type { RegistrySettings, Tenant } from './tenant.js';

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

/** Something that was read from the source, with its generation before that. */
interface SourceAnswer {
  generation: Generation;
}

interface KnownTenant extends SourceAnswer {
  tenant: Tenant;
  /** {@link Clock.now} until which the source is not asked again. */
  freshUntil: number;
  /** Where the source failed or was slow: {@link Clock.now} until which it is not asked again. */
  retryAt?: number;
}

/**
 * The tenants of a {@link TenantSource}. Concurrent requests for one tenant share one call of the source. While the source
 * fails, the last good options of a tenant are used (`tenantCache.staleIfError`).
 */
export class RunTimeTenants {
  readonly #source: TenantSource;
  readonly #settings: RegistrySettings;
  readonly #clock: Clock;
  readonly #known: ExpiringCache<KnownTenant>;
  readonly #unknown: ExpiringCache<SourceAnswer>;
  readonly #reads = new Map<string, Promise<Tenant | undefined>>();
  readonly #dropped: (tenant: Tenant) => void;
  readonly #forgotten: ForgottenTenants;
  readonly #log: ThrottledLog;

  /** @param dropped is called with each tenant that was forgotten, here or in another process */
  constructor(
    source: TenantSource,
    settings: RegistrySettings,
    clock: Clock,
    forgotten: ForgottenTenants,
    dropped: (tenant: Tenant) => void,
  ) {
    this.#source = source;
    this.#settings = settings;
    this.#clock = clock;
    this.#forgotten = forgotten;
    this.#dropped = dropped;
    this.#log = new ThrottledLog(clock, WARN_EVERY);
    this.#known = expiringCache(clock, { max: settings.tenantCache.max });
    this.#unknown = expiringCache(clock, UNKNOWN);
  }

  /** The tenant of this key, where its options need not be read again. */
  fresh(key: string): Tenant | undefined {
    const known = this.#known.get(key);
    if (known === undefined || this.#clock.now() >= known.freshUntil) {
      return undefined;
    }
    return this.#forgotten.current(key)?.id === known.generation.id ? known.tenant : undefined;
  }

  /** The tenant of this key, if it is known now. */
  peek(key: string): Tenant | undefined {
    return this.#known.peek(key)?.tenant;
  }

  async find(key: string): Promise<Tenant | undefined> {
    const generation = this.#forgotten.current(key) ?? (await this.#forgotten.read(key));
    this.#dropIfForgotten(key, generation);
    const known = this.#known.get(key);
    const now = this.#clock.now();
    if (known !== undefined && now < known.freshUntil) {
      return known.tenant;
    }
    if (this.#unknown.has(key)) {
      return undefined;
    }
    const isUsable = known !== undefined && now < known.freshUntil + this.#settings.tenantCache.staleIfError;
    return isUsable ? this.#findAgain(key, known, generation) : this.#join(key, generation);
  }

  forget(key: string): void {
    this.#drop(key);
    this.#forgotten.announce(key);
  }

  /** Drops what was read of a tenant before another process forgot it. */
  #dropIfForgotten(key: string, now: Generation): void {
    const known = this.#known.peek(key) ?? this.#unknown.peek(key);
    if (known === undefined) {
      return;
    }
    if (isForgotten(known.generation, now)) {
      this.#drop(key);
    } else if (now.isKnown) {
      known.generation = now;
    }
  }

  #drop(key: string): void {
    const known = this.#known.peek(key);
    this.#known.delete(key);
    this.#unknown.delete(key);
    this.#reads.delete(key);
    if (known !== undefined) {
      this.#dropped(known.tenant);
    }
  }

  /** The tenant as it is now, or its last good options where the source fails or is slow. */
  async #findAgain(key: string, known: KnownTenant, generation: Generation): Promise<Tenant | undefined> {
    const { retryAt } = known;
    if (retryAt !== undefined && this.#clock.now() < retryAt) {
      return known.tenant;
    }
    const read = this.#join(key, generation);
    if (retryAt !== undefined) {
      // The source failed last time. The call does not wait for it to fail again.
      return known.tenant;
    }
    try {
      return await withTimeout(Math.min(PATIENCE, this.#settings.http.deadline / 2), () => read);
    } catch (error) {
      if (!isSourceFailure(error)) {
        throw error;
      }
      known.retryAt ??= this.#clock.now() + RETRY_AFTER;
      return known.tenant;
    }
  }

  #join(key: string, generation: Generation): Promise<Tenant | undefined> {
    return this.#reads.get(key) ?? this.#startRead(key, generation);
  }

  #startRead(key: string, generation: Generation): Promise<Tenant | undefined> {
    const read = this.#read(key, generation, () => this.#reads.get(key) === read);
    this.#reads.set(key, read);
    // A call with last good options may not wait for it.
    read.catch(() => undefined);
    return read;
  }

  /** @param isCurrent false after the tenant was forgotten: the result of an earlier read is not kept, since it may be outdated */
  async #read(key: string, generation: Generation, isCurrent: () => boolean): Promise<Tenant | undefined> {
    try {
      const before = this.#known.peek(key)?.tenant;
      const tenant = await readTenant(this.#source, key, this.#settings, before);
      if (isCurrent()) {
        this.#keep(key, tenant, generation);
      }
      return tenant;
    } catch (error) {
      if (isCurrent()) {
        this.#noteFailure(key, error);
      }
      throw error;
    } finally {
      if (isCurrent()) {
        this.#reads.delete(key);
      }
    }
  }

  #keep(key: string, tenant: Tenant | undefined, generation: Generation): void {
    if (tenant !== undefined) {
      const freshUntil = this.#clock.now() + this.#settings.tenantCache.ttl;
      this.#known.set(key, { tenant, generation, freshUntil });
      return;
    }
    this.#known.delete(key);
    this.#unknown.set(key, { generation });
  }

  #noteFailure(key: string, error: unknown): void {
    const known = this.#known.peek(key);
    if (known === undefined) {
      return;
    }
    if (!isSourceFailure(error)) {
      known.retryAt = undefined;
      return;
    }
    known.retryAt = this.#clock.now() + RETRY_AFTER;
    this.#log.warn(tenantSourceFails(key, this.#settings.tenantCache.staleIfError));
  }
}
