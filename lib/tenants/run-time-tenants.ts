import { Logger } from '@nestjs/common';
import { foreignText } from '../model/foreign-text.js';
import type { TenantSource } from '../options/tenant-source.interface.js';
import type { Clock } from '../time/clock.js';
import { expiringCache, type ExpiringCache } from '../time/expiring-cache.js';
import { withTimeout } from '../time/with-timeout.js';
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

interface KnownTenant {
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
  readonly #unknown: ExpiringCache<true>;
  readonly #reads = new Map<string, Promise<Tenant | undefined>>();
  readonly #logger = new Logger('nestjs-exhibitor');
  #warnedAt = Number.NEGATIVE_INFINITY;

  constructor(source: TenantSource, settings: RegistrySettings, clock: Clock) {
    this.#source = source;
    this.#settings = settings;
    this.#clock = clock;
    this.#known = expiringCache(clock, { max: settings.tenantCache.max });
    this.#unknown = expiringCache(clock, UNKNOWN);
  }

  /** The tenant of this key, where its options need not be read again. */
  fresh(key: string): Tenant | undefined {
    const known = this.#known.get(key);
    return known !== undefined && this.#clock.now() < known.freshUntil ? known.tenant : undefined;
  }

  async find(key: string): Promise<Tenant | undefined> {
    const fresh = this.fresh(key);
    if (fresh !== undefined) {
      return fresh;
    }
    if (this.#unknown.has(key)) {
      return undefined;
    }
    const known = this.#known.peek(key);
    const isUsable =
      known !== undefined && this.#clock.now() < known.freshUntil + this.#settings.tenantCache.staleIfError;
    return isUsable ? this.#findAgain(key, known) : this.#join(key);
  }

  /** The tenant of this key, if it is known now. */
  peek(key: string): Tenant | undefined {
    return this.#known.peek(key)?.tenant;
  }

  forget(key: string): void {
    this.#known.delete(key);
    this.#unknown.delete(key);
    this.#reads.delete(key);
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

  /** @param isCurrent false after `forget`: the result of an earlier read is not kept, since it may be outdated */
  async #read(key: string, isCurrent: () => boolean): Promise<Tenant | undefined> {
    try {
      const tenant = await readTenant(this.#source, key, this.#settings, this.peek(key));
      if (isCurrent()) {
        this.#keep(key, tenant);
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

  #keep(key: string, tenant: Tenant | undefined): void {
    if (tenant !== undefined) {
      this.#known.set(key, { tenant, freshUntil: this.#clock.now() + this.#settings.tenantCache.ttl });
      return;
    }
    this.#known.delete(key);
    this.#unknown.set(key, true);
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
    const now = this.#clock.now();
    known.retryAt = now + RETRY_AFTER;
    if (now - this.#warnedAt >= WARN_EVERY) {
      this.#warnedAt = now;
      const { staleIfError } = this.#settings.tenantCache;
      this.#logger.warn(
        `the tenant source fails, first noticed for the tenant ${foreignText(key)}; ` +
          `the last good options of each tenant are used for ${staleIfError} ms at most`,
      );
    }
  }
}
