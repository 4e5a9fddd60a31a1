import { isDeepStrictEqual } from 'node:util';
import { LRUCache } from 'lru-cache';
import { ConfigurationError } from '../errors/configuration.error.js';
import { ExhibitorError, isExhibitorError } from '../errors/exhibitor.error.js';
import { checkTenant } from '../options/check-tenant.js';
import type { TenantSettings } from '../options/tenant-settings.js';
import type { TenantSource } from '../options/tenant-source.interface.js';
import { withTimeout, TimeoutError } from '../time/with-timeout.js';
import { withRequireIss } from './require-iss.js';
import { Tenant, type RegistrySettings } from './tenant.js';

/** Unknown keys are kept apart, so that made-up keys push out no good tenant, and briefly: a tenant may be created. */
const UNKNOWN = { ttl: 5_000, max: 10_000 };

/** Tenants of a {@link TenantSource}: one question for many callers, read again when their time is up. */
export class RunTimeTenants {
  readonly #known: LRUCache<string, Tenant>;
  readonly #unknown = new LRUCache<string, true>(UNKNOWN);
  readonly #asked = new Map<string, Promise<Tenant | undefined>>();

  constructor(
    private readonly source: TenantSource,
    private readonly settings: RegistrySettings,
  ) {
    this.#known = new LRUCache({ ...settings.tenantCache, allowStale: true, noDeleteOnStaleGet: true });
  }

  async find(key: string): Promise<Tenant | undefined> {
    if (this.#known.getRemainingTTL(key) > 0) {
      return this.#known.get(key);
    }
    if (this.#unknown.has(key)) {
      return undefined;
    }
    const asked = this.#asked.get(key) ?? this.#ask(key);
    return asked;
  }

  forget(key: string): void {
    this.#known.delete(key);
    this.#unknown.delete(key);
    this.#asked.delete(key);
  }

  #ask(key: string): Promise<Tenant | undefined> {
    const asked = this.#read(key)
      .then((tenant) => {
        // What was forgotten meanwhile is not kept: it may be older than the reason to forget it.
        if (this.#asked.get(key) === asked) {
          this.#keep(key, tenant);
        }
        return tenant;
      })
      .finally(() => {
        if (this.#asked.get(key) === asked) {
          this.#asked.delete(key);
        }
      });
    this.#asked.set(key, asked);
    return asked;
  }

  #keep(key: string, tenant: Tenant | undefined): void {
    if (tenant !== undefined) {
      this.#known.set(key, tenant);
      return;
    }
    this.#known.delete(key);
    this.#unknown.set(key, true);
  }

  async #read(key: string): Promise<Tenant | undefined> {
    const options = await this.#findInSource(key);
    // Many a database answers null for what it does not have.
    if (options === undefined || options === null) {
      return undefined;
    }
    const { settings, problems } = checkTenant(options, `tenants.${key}`, this.settings);
    if (settings === undefined || problems.length > 0) {
      throw new ConfigurationError(problems, key);
    }
    const before = this.#known.get(key);
    const complete = withRequireIss(settings, true);
    const anchor = before !== undefined && isSame(before.settings, complete) ? before.stateKey : undefined;
    return new Tenant(key, complete, this.settings.http, anchor);
  }

  async #findInSource(key: string): Promise<unknown> {
    try {
      // Guards and logins wait for it without a deadline of their own.
      return await withTimeout(this.settings.http.deadline, () => this.source.find(key));
    } catch (error) {
      if (isExhibitorError(error)) {
        throw error;
      }
      if (error instanceof TimeoutError) {
        throw new ExhibitorError('deadline_exceeded', 'the tenant source did not answer in time', {
          tenant: key,
        });
      }
      throw new ExhibitorError('service_unavailable', 'the tenant source failed', {
        tenant: key,
        cause: error,
      });
    }
  }
}

/** Functions are left out: a source makes new ones at each call. */
function isSame(before: TenantSettings, after: TenantSettings): boolean {
  return isDeepStrictEqual(plain(before), plain(after));
}

function plain(value: unknown): unknown {
  if (typeof value === 'function') {
    return 'function';
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value) || value.constructor !== Object) {
    return value;
  }
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, plain(inner)]));
}
