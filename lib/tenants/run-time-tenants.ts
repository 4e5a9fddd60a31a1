import { isDeepStrictEqual } from 'node:util';
import { ConfigurationError } from '../errors/configuration.error.js';
import { ExhibitorError, isExhibitorError } from '../errors/exhibitor.error.js';
import { foreignText } from '../model/foreign-text.js';
import { checkTenant } from '../options/check-tenant.js';
import type { TenantSettings } from '../options/tenant-settings.js';
import type { TenantSource } from '../options/tenant-source.interface.js';
import type { Clock } from '../time/clock.js';
import { expiringCache, type ExpiringCache } from '../time/expiring-cache.js';
import { TimeoutError, withTimeout } from '../time/with-timeout.js';
import { withRequireIss } from './require-iss.js';
import { Tenant, type RegistrySettings } from './tenant.js';

/**
 * Unknown keys are remembered in a cache of their own, so that random keys remove no known tenant; and briefly, since the
 * tenant may be created.
 */
const UNKNOWN = { ttl: 5_000, max: 10_000 };

interface KnownTenant {
  tenant: Tenant;
  /** {@link Clock.now} until which the source is not asked again. */
  freshUntil: number;
}

/** The tenants of a {@link TenantSource}. Concurrent requests for one tenant share one call of the source. */
export class RunTimeTenants {
  readonly #source: TenantSource;
  readonly #settings: RegistrySettings;
  readonly #clock: Clock;
  readonly #known: ExpiringCache<KnownTenant>;
  readonly #unknown: ExpiringCache<true>;
  readonly #reads = new Map<string, Promise<Tenant | undefined>>();

  constructor(source: TenantSource, settings: RegistrySettings, clock: Clock) {
    this.#source = source;
    this.#settings = settings;
    this.#clock = clock;
    this.#known = expiringCache(clock, { max: settings.tenantCache.max });
    this.#unknown = expiringCache(clock, UNKNOWN);
  }

  async find(key: string): Promise<Tenant | undefined> {
    const known = this.#known.get(key);
    if (known !== undefined && this.#clock.now() < known.freshUntil) {
      return known.tenant;
    }
    if (this.#unknown.has(key)) {
      return undefined;
    }
    return this.#reads.get(key) ?? this.#startRead(key);
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

  #startRead(key: string): Promise<Tenant | undefined> {
    const read = this.#read(key)
      .then((tenant) => {
        // After `forget` the result of an earlier read is not kept: it may be outdated.
        if (this.#reads.get(key) === read) {
          this.#keep(key, tenant);
        }
        return tenant;
      })
      .finally(() => {
        if (this.#reads.get(key) === read) {
          this.#reads.delete(key);
        }
      });
    this.#reads.set(key, read);
    return read;
  }

  #keep(key: string, tenant: Tenant | undefined): void {
    if (tenant !== undefined) {
      this.#known.set(key, { tenant, freshUntil: this.#clock.now() + this.#settings.tenantCache.ttl });
      return;
    }
    this.#known.delete(key);
    this.#unknown.set(key, true);
  }

  async #read(key: string): Promise<Tenant | undefined> {
    const options = await this.#findInSource(key);
    // Many databases answer null for a missing row.
    if (options === undefined || options === null) {
      return undefined;
    }
    const { settings, problems } = checkTenant(options, `tenants.${foreignText(key)}`, this.#settings);
    if (settings === undefined || problems.length > 0) {
      throw new ConfigurationError(problems, foreignText(key));
    }
    const before = this.peek(key);
    const complete = withRequireIss(settings, true);
    const isUnchanged = before !== undefined && isSame(before.settings, complete);
    return new Tenant(key, complete, this.#settings.http, isUnchanged ? before.stateKey : undefined);
  }

  /** Guards and logins wait for the source without a deadline of their own. */
  async #findInSource(key: string): Promise<unknown> {
    try {
      return await withTimeout(this.#settings.http.deadline, () => this.#source.find(key));
    } catch (error) {
      if (isExhibitorError(error)) {
        throw error;
      }
      if (error instanceof TimeoutError) {
        throw new ExhibitorError('deadline_exceeded', 'the tenant source did not answer in time', {
          tenant: foreignText(key),
        });
      }
      throw new ExhibitorError('service_unavailable', 'the tenant source failed', {
        tenant: foreignText(key),
        cause: error,
      });
    }
  }
}

/** Compares options without their functions: a source creates new ones at each call. */
function isSame(before: TenantSettings, after: TenantSettings): boolean {
  return isDeepStrictEqual(withoutFunctions(before), withoutFunctions(after));
}

function withoutFunctions(value: unknown): unknown {
  if (typeof value === 'function') {
    return 'function';
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value) || value.constructor !== Object) {
    return value;
  }
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, withoutFunctions(inner)]));
}
