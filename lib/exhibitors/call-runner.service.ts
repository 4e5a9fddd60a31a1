import { Inject, Injectable } from '@nestjs/common';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { Deadline } from '../time/deadline.js';
import type { CallOptions } from './call-options.interface.js';

/** Opens calls: whom they are for and how long they may take. */
@Injectable()
export class CallRunner {
  constructor(
    @Inject(TenantRegistry) private readonly registry: TenantRegistry,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(CHECKED_OPTIONS) private readonly options: CheckedOptions,
  ) {}

  /**
   * Runs one call within its deadline, which begins before the tenant is found: a `TenantSource` may be slow.
   *
   * @throws {ExhibitorError} `tenant_required`, `unknown_tenant`, `deadline_exceeded`, `aborted`, and what the work throws
   */
  async run<R>(
    call: CallOptions,
    signal: AbortSignal,
    work: (tenant: Tenant, deadline: Deadline) => Promise<R>,
  ): Promise<R> {
    const began = this.clock.now();
    const tenant = await this.tenant(call, signal);
    return this.within(tenant, call, signal, (deadline) => work(tenant, deadline), this.clock.now() - began);
  }

  /** The tenant a call is for, found within the call's deadline. */
  async tenant({ tenant, deadline }: CallOptions, signal: AbortSignal): Promise<Tenant> {
    const found = this.registry.resolve(tenant);
    if (!(found instanceof Promise)) {
      return found;
    }
    const wait = Deadline.start(this.clock, deadline ?? this.options.settings.http.deadline, signal);
    return wait.race(found).finally(() => wait.end());
  }

  /** Runs a request of a known tenant within the call's deadline, of which `spent` milliseconds are over. */
  async within<R>(
    tenant: Tenant,
    call: CallOptions,
    signal: AbortSignal | undefined,
    work: (deadline: Deadline) => Promise<R>,
    spent = 0,
  ): Promise<R> {
    const left = Math.max(1, Math.ceil((call.deadline ?? tenant.http.deadline) - spent));
    const deadline = Deadline.start(this.clock, left, signal);
    try {
      if (deadline.isOver) {
        throw deadline.failure({ tenant: tenant.key });
      }
      return await work(deadline);
    } finally {
      deadline.end();
    }
  }
}
