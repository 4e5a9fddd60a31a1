import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import type { Tenant } from '../tenants/tenant.js';
import type { Cancellation } from '../time/cancellation.js';
import { Clock } from '../time/clock.js';
import { Deadline } from '../time/deadline.js';
import type { MaybePromise } from '../time/steps.js';
import type { CallOptions } from './call-options.interface.js';

/** Options of a call within the module. */
type RunOptions = Omit<CallOptions, 'signal'> & { signal?: AbortSignal | Cancellation };

/** Finds the tenant of a call and gives the call its deadline. Closing the module ends all calls, whatever they wait for. */
@Injectable()
export class CallRunner implements OnModuleDestroy {
  readonly #tenants: TenantRegistry;
  readonly #clock: Clock;
  readonly #defaultDeadline: number;
  readonly #running = new Set<Deadline>();
  #isClosed = false;

  constructor(
    @Inject(TenantRegistry) tenants: TenantRegistry,
    @Inject(Clock) clock: Clock,
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
  ) {
    this.#tenants = tenants;
    this.#clock = clock;
    this.#defaultDeadline = settings.http.deadline;
  }

  /** True once the module was closed: every call fails. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /**
   * Runs a call. Its deadline starts before the tenant is found, since a `TenantSource` may be slow.
   *
   * @throws {ExhibitorError} `tenant_required`, `unknown_tenant`, `deadline_exceeded`, `aborted`, and errors of `work`
   */
  async run<R>(call: RunOptions, work: (tenant: Tenant, deadline: Deadline) => Promise<R>): Promise<R> {
    const startedAt = this.#clock.now();
    const tenant = await this.tenant(call);
    const deadline = this.#startFor(tenant, call, this.#clock.now() - startedAt);
    try {
      return await work(tenant, deadline);
    } finally {
      this.#end(deadline);
    }
  }

  /** The tenant of a call, found within the deadline of the call. */
  tenant({ tenant, deadline, signal }: RunOptions): MaybePromise<Tenant> {
    const found = this.#tenants.resolve(tenant);
    if (!(found instanceof Promise)) {
      return found;
    }
    const wait = this.#start(deadline ?? this.#defaultDeadline, signal);
    return wait.race(found).finally(() => this.#end(wait));
  }

  /** Runs a request of a known tenant within the deadline of the call. */
  async within<R>(
    tenant: Tenant,
    call: Pick<RunOptions, 'deadline' | 'signal'>,
    work: (deadline: Deadline) => Promise<R>,
  ): Promise<R> {
    const deadline = this.#startFor(tenant, call, 0);
    try {
      return await work(deadline);
    } finally {
      this.#end(deadline);
    }
  }

  onModuleDestroy(): void {
    this.#isClosed = true;
    for (const deadline of this.#running) {
      deadline.close();
    }
  }

  /** Starts the deadline of a call, of which `spent` ms are used. */
  #startFor(tenant: Tenant, call: Pick<RunOptions, 'deadline' | 'signal'>, spent: number): Deadline {
    const left = Math.max(1, Math.ceil((call.deadline ?? tenant.http.deadline) - spent));
    const deadline = this.#start(left, call.signal);
    if (deadline.isOver) {
      this.#end(deadline);
      throw deadline.failure({ tenant: tenant.key });
    }
    return deadline;
  }

  #start(ms: number, signal: AbortSignal | Cancellation | undefined): Deadline {
    const deadline = Deadline.start(this.#clock, ms, signal);
    this.#running.add(deadline);
    if (this.#isClosed) {
      deadline.close();
    }
    return deadline;
  }

  #end(deadline: Deadline): void {
    deadline.end();
    this.#running.delete(deadline);
  }
}
