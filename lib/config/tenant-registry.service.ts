import { Inject, Injectable } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { Calls } from '../call/calls.service.js';
import { Clock } from '../call/clock.js';
import { Rests } from '../call/partner.js';
import { CHECKED_OPTIONS, isTenantKey, type CheckedOptions } from './check-options.js';
import { ProblemLog } from './problems/problem-log.service.js';
import { unknownTenant } from './read-tenant.js';
import { RunTimeTenants } from './run-time-tenants.js';
import { Tenant } from './tenant.js';

/**
 * The tenants: those of the options, or those that a {@link TenantSource} finds.
 *
 * @example
 * const { tenantId } = await registry.get('acme');
 */
@Injectable()
export class TenantRegistry {
  readonly #fixed = new Map<string, Tenant>();
  readonly #found: RunTimeTenants | undefined;

  /** @internal */
  constructor(
    @Inject(CHECKED_OPTIONS) { settings, tenants }: CheckedOptions,
    @Inject(Calls) calls: Calls,
    @Inject(Clock) clock: Clock,
    @Inject(Rests) rests: Rests,
    @Inject(ProblemLog) log: ProblemLog,
  ) {
    if ('find' in tenants) {
      this.#found = new RunTimeTenants(tenants, settings, calls, clock, rests, log);
      return;
    }
    for (const [key, tenant] of tenants) {
      this.#fixed.set(key, new Tenant(key, tenant, settings.http));
    }
  }

  /** Key of the only tenant; `undefined` where there are several or they come from a source. */
  get onlyKey(): string | undefined {
    return this.#fixed.size === 1 ? this.#fixed.keys().next().value : undefined;
  }

  /** The tenant of this key as it is known now, also where its source is to be asked again. @internal */
  peek(key: string): Tenant | undefined {
    return this.#fixed.get(key) ?? this.#found?.peek(key);
  }

  /** The tenants of the options; none with a source. @internal */
  get fixed(): Tenant[] {
    return [...this.#fixed.values()];
  }

  /**
   * The tenant of this key.
   *
   * @throws {ExhibitorError} `unknown_tenant`; `configuration_invalid` where the source answers wrong options;
   * `service_unavailable` where the source fails, with its error as `cause`; `deadline_exceeded` where it does not answer
   * within `http.deadline`. While it fails, the last good options of the tenant are used (`tenantCache.staleIfError`).
   */
  async get(key: string): Promise<Tenant> {
    return this.find(key);
  }

  /**
   * As {@link get}, but no promise where the tenant is known.
   *
   * @param ms time of the caller; `http.deadline` without it
   * @internal
   */
  find(key: string, ms?: number): Tenant | Promise<Tenant> {
    const tenant = this.#fixed.get(key);
    if (tenant !== undefined) {
      return tenant;
    }
    if (this.#found === undefined || !isTenantKey(String(key))) {
      return Promise.reject(unknownTenant(String(key)));
    }
    return this.#found.find(key, ms);
  }

  /**
   * The tenant of a call: the named one, else the only one.
   *
   * @param ms as for {@link find}
   * @throws {ExhibitorError} `tenant_required` where there are several tenants and none is named; and as {@link get}
   * @internal
   */
  resolve(key: string | undefined, ms?: number): Tenant | Promise<Tenant> {
    const wanted = key ?? this.onlyKey;
    if (wanted === undefined) {
      throw new ExhibitorError(
        'tenant_required',
        'there are several tenants, and none is named: `resolveTenant` names that of a request, the option `tenant` or ' +
          '`forTenant` that of a call',
      );
    }
    return this.find(wanted, ms);
  }

  /**
   * Drops the state of a tenant in this process: tokens, limits and lookups. A tenant of a source is read again when it is next
   * needed; its last good options are dropped as well. Other processes follow when `tenantCache.ttl` is over.
   */
  forget(key: string): void {
    const fixed = this.#fixed.get(key);
    if (fixed !== undefined) {
      this.#fixed.set(key, fixed.withoutState());
    }
    this.#found?.forget(key);
  }
}
