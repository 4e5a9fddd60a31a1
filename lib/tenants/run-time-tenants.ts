import type { TenantSource } from '../options/tenant-options.interface.js';
import { tenantSourceFails } from '../problems/tenant-problems.js';
import { ThrottledLog } from '../problems/throttled-log.js';
import type { Clock } from '../time/clock.js';
import { expiringCache, type ExpiringCache } from '../time/expiring-cache.js';
import { withTimeout } from '../time/with-timeout.js';
import { ForgottenElsewhere, type Dated } from './forgotten-elsewhere.js';
import { isSourceFailure, readTenant } from './read-tenant.js';
import type { SharedForgets } from './shared-forgets.interface.js';
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

interface KnownTenant extends Dated {
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
  readonly #unknown: ExpiringCache<Dated>;
  readonly #reads = new Map<string, Promise<Tenant | undefined>>();
  readonly #dropped: (tenant: Tenant) => void;
  #elsewhere: ForgottenElsewhere | undefined;
  #era = '';
  readonly #log: ThrottledLog;

  /** @param dropped is called with each tenant that was forgotten, here or in another process */
  constructor(
    source: TenantSource,
    settings: RegistrySettings,
    clock: Clock,
    dropped: (tenant: Tenant) => void,
  ) {
    this.#source = source;
    this.#settings = settings;
    this.#clock = clock;
    this.#dropped = dropped;
    this.#log = new ThrottledLog(clock, WARN_EVERY);
    this.#known = expiringCache(clock, { max: settings.tenantCache.max });
    this.#unknown = expiringCache(clock, UNKNOWN);
  }

  /** From now on, tenants that another process forgets are dropped here within a second. */
  shareForgets(forgets: SharedForgets): void {
    this.#elsewhere = new ForgottenElsewhere(forgets, this.#clock);
  }

  /** The tenant of this key, where its options need not be read again. */
  fresh(key: string): Tenant | undefined {
    const known = this.#known.get(key);
    if (known === undefined || this.#clock.now() >= known.freshUntil) {
      return undefined;
    }
    return this.#elsewhere === undefined || this.#elsewhere.era === known.era ? known.tenant : undefined;
  }

  /** The tenant of this key, if it is known now. */
  peek(key: string): Tenant | undefined {
    return this.#known.peek(key)?.tenant;
  }

  async find(key: string): Promise<Tenant | undefined> {
    if (this.#elsewhere !== undefined) {
      await this.#dropForgotten(key, this.#elsewhere);
    }
    const known = this.#known.get(key);
    const now = this.#clock.now();
    if (known !== undefined && now < known.freshUntil) {
      return known.tenant;
    }
    if (this.#unknown.has(key)) {
      return undefined;
    }
    const isUsable = known !== undefined && now < known.freshUntil + this.#settings.tenantCache.staleIfError;
    return isUsable ? this.#findAgain(key, known) : this.#join(key);
  }

  forget(key: string): void {
    this.#drop(key);
    this.#elsewhere?.announce(key);
  }

  /** Drops what is known of a tenant that another process forgot. */
  async #dropForgotten(key: string, elsewhere: ForgottenElsewhere): Promise<void> {
    const era = elsewhere.era ?? (await elsewhere.readEra());
    this.#era = era;
    if (this.#unknown.peek(key)?.era !== era) {
      this.#unknown.delete(key);
    }
    const known = this.#known.peek(key);
    if (known === undefined || known.era === era || !(await elsewhere.has(key, known, era))) {
      return;
    }
    // Several calls may wait for the same check.
    if (this.#known.peek(key) === known) {
      this.#drop(key);
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
  async #findAgain(key: string, known: KnownTenant): Promise<Tenant | undefined> {
    const { retryAt } = known;
    if (retryAt !== undefined && this.#clock.now() < retryAt) {
      return known.tenant;
    }
    const read = this.#join(key);
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

  #join(key: string): Promise<Tenant | undefined> {
    return this.#reads.get(key) ?? this.#startRead(key);
  }

  #startRead(key: string): Promise<Tenant | undefined> {
    const read = this.#read(key, () => this.#reads.get(key) === read);
    this.#reads.set(key, read);
    // A call with last good options may not wait for it.
    read.catch(() => undefined);
    return read;
  }

  /** @param isCurrent false after the tenant was forgotten: the result of an earlier read is not kept, since it may be outdated */
  async #read(key: string, isCurrent: () => boolean): Promise<Tenant | undefined> {
    // A tenant that is forgotten during the read is then of a former era.
    const era = this.#era;
    try {
      const before = this.#known.peek(key)?.tenant;
      const tenant = await readTenant(this.#source, key, this.#settings, before);
      if (isCurrent()) {
        this.#keep(key, tenant, era);
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

  #keep(key: string, tenant: Tenant | undefined, era: string): void {
    if (tenant !== undefined) {
      const freshUntil = this.#clock.now() + this.#settings.tenantCache.ttl;
      this.#known.set(key, { tenant, era, freshUntil });
      return;
    }
    this.#known.delete(key);
    this.#unknown.set(key, { era });
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
