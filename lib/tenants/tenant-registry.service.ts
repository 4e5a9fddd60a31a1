import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { requireIssDefaults } from './require-iss.js';
import { RunTimeTenants } from './run-time-tenants.js';
import { Tenant } from './tenant.js';

/**
 * The one place that knows tenants: those of the options, or those a {@link TenantSource} finds.
 *
 * @example
 * const { tenantId } = await registry.get('acme');
 */
@Injectable()
export class TenantRegistry {
  readonly #fixed = new Map<string, Tenant>();
  readonly #found: RunTimeTenants | undefined;

  constructor(@Inject(CHECKED_OPTIONS) options: CheckedOptions) {
    const { settings, tenants } = options;
    if ('find' in tenants) {
      this.#found = new RunTimeTenants(tenants, settings);
      return;
    }
    for (const [key, tenant] of requireIssDefaults(tenants)) {
      this.#fixed.set(key, new Tenant(key, tenant, settings.http));
    }
  }

  /** Key of the only tenant; `undefined` where there are several or they come from a source. */
  get onlyKey(): string | undefined {
    if (this.#found !== undefined || this.#fixed.size !== 1) {
      return undefined;
    }
    return this.#fixed.keys().next().value;
  }

  /**
   * The tenant of this key.
   *
   * @throws {ExhibitorError} `unknown_tenant`; `configuration_invalid` where a source found one with wrong options;
   * `service_unavailable` where the source failed, with its error as `cause`; `deadline_exceeded` where it was silent
   */
  async get(key: string): Promise<Tenant> {
    const tenant = this.#fixed.get(key) ?? (await this.#found?.find(key));
    if (tenant === undefined) {
      throw new ExhibitorError('unknown_tenant', 'there is no such tenant', { tenant: key });
    }
    return tenant;
  }

  /**
   * The tenant a call is for: the named one, else the only one.
   *
   * @throws {ExhibitorError} `tenant_required` where several are known and none is named; and as {@link get}
   * @internal
   */
  resolve(key: string | undefined): Tenant | Promise<Tenant> {
    const wanted = key ?? this.onlyKey;
    if (wanted === undefined) {
      throw new ExhibitorError(
        'tenant_required',
        'there are several tenants: name one with the option `tenant`',
      );
    }
    return this.#fixed.get(wanted) ?? this.get(wanted);
  }

  /** Drops what is kept of a tenant: its tokens, budgets and keys. One of a source is read again when next needed. */
  forget(key: string): void {
    const tenant = this.#fixed.get(key);
    if (tenant !== undefined) {
      this.#fixed.set(key, tenant.renewed());
    }
    this.#found?.forget(key);
  }
}
