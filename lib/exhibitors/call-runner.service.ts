import { Inject, Injectable } from '@nestjs/common';
import type { Subscription } from 'rxjs';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import { Deadlines } from '../time/deadlines.service.js';
import type { CallOptions } from './call-options.interface.js';
import {
  checkCall,
  checkSubject,
  withTenant,
  type CallSchema,
  type CallSubject,
} from './call-options.schema.js';

/** A call, and the subscription of its consumer, whose end aborts it. */
export type RunningCall<Options extends CallOptions = CallOptions> = Options & { consumer?: Subscription };

/** Checks the arguments of a call, finds its tenant and gives it its deadline. */
@Injectable()
export class CallRunner {
  readonly #defaultDeadline: number;

  constructor(
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(Deadlines) private readonly deadlines: Deadlines,
    @Inject(Clock) private readonly clock: Clock,
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
  ) {
    this.#defaultDeadline = settings.http.deadline;
  }

  /**
   * The checked arguments of a call, with the defaults of its options.
   *
   * @param method of `ExhibitorsService`
   * @param boundTo key of the tenant of `forTenant`
   * @throws {ExhibitorError} `invalid_argument`
   */
  check<Subject extends CallSubject, Call extends object>(
    method: string,
    subject: Subject,
    schema: CallSchema<Call>,
    options: CallOptions | undefined,
    boundTo: string | undefined,
  ): Subject & Call {
    this.tenants.announce(method, options?.tenant ?? boundTo, subject);
    checkSubject(subject);
    return Object.assign(checkCall(schema, withTenant(options, boundTo)), subject);
  }

  /** True once the module was closed: every call fails. */
  get isClosed(): boolean {
    return this.deadlines.isClosed;
  }

  /**
   * Runs a call. Its deadline starts before the tenant is found, since a `TenantSource` may be slow.
   *
   * @throws {ExhibitorError} `tenant_required`, `unknown_tenant`, `deadline_exceeded`, `aborted`, and errors of `work`
   */
  async run<R>(call: RunningCall, work: (tenant: Tenant, deadline: Deadline) => Promise<R>): Promise<R> {
    const startedAt = this.clock.now();
    const tenant = await this.tenant(call);
    const left = (call.deadline ?? tenant.http.deadline) - (this.clock.now() - startedAt);
    const { signal, consumer } = call;
    const limits = { deadline: Math.max(1, Math.ceil(left)), signal, consumer };
    return this.within(tenant, limits, (deadline) => work(tenant, deadline));
  }

  /** The tenant of a call, found within the deadline of the call. */
  tenant(call: RunningCall): Tenant | Promise<Tenant> {
    const found = this.tenants.resolve(call.tenant);
    if (!(found instanceof Promise)) {
      return found;
    }
    const wait = this.#start(call, this.#defaultDeadline);
    return wait.race(found).finally(() => wait.clear());
  }

  async within<R>(
    tenant: Tenant,
    call: Omit<RunningCall, 'tenant'>,
    work: (deadline: Deadline) => Promise<R>,
  ): Promise<R> {
    const deadline = this.#start(call, tenant.http.deadline);
    try {
      if (deadline.isOver) {
        throw deadline.failure({ tenant: tenant.key });
      }
      return await work(deadline);
    } finally {
      deadline.clear();
    }
  }

  #start({ deadline: ms, signal, consumer }: RunningCall, defaultMs: number): Deadline {
    const deadline = this.deadlines.start(ms ?? defaultMs, signal);
    // No AbortController: to create one and to listen to it takes a tenth of the time of a page.
    consumer?.add(() => deadline.abort());
    return deadline;
  }
}
