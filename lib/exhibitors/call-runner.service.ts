import { Inject, Injectable } from '@nestjs/common';
import { Observable, type Subscriber, type Subscription } from 'rxjs';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../options/check-options.js';
import { TenantRegistry } from '../tenants/tenant-registry.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { onAbort, type Deadline } from '../time/deadline.js';
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
  check<Subject extends CallSubject, Checked extends object>(
    method: string,
    subject: Subject,
    schema: CallSchema<Checked>,
    options: CallOptions | undefined,
    boundTo: string | undefined,
  ): Subject & Checked {
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

/** A checked call. Its signal aborts when the caller's own signal does, and when the consumer unsubscribes. */
export type Call<Options extends CallOptions> = Omit<Options, 'signal'> & { signal: AbortSignal };

export interface CallScope {
  readonly signal: AbortSignal;
  /** The call is done or its consumer has left: aborts what is still running. */
  readonly close: () => void;
}

export function openScope(callerSignal: AbortSignal | undefined): CallScope {
  const controller = new AbortController();
  const forget = onAbort(callerSignal, () => controller.abort());
  const close = (): void => {
    forget();
    controller.abort();
  };
  return { signal: controller.signal, close };
}

export function abortedCall(): ExhibitorError {
  return new ExhibitorError('aborted', 'the caller aborted the call');
}

/**
 * A cold Observable of a call. Options are checked on subscription, so that a wrong one is an error notification.
 *
 * @param run the call, which passes what it finds to its consumer. It ends when the caller's own signal aborts, and when the
 * consumer unsubscribes
 */
export function fromCall<Options, R>(
  check: () => Options,
  run: (options: Options, consumer: Subscriber<R>) => Promise<void>,
): Observable<R> {
  return new Observable((consumer) => {
    run(check(), consumer).then(
      () => consumer.complete(),
      (error: unknown) => consumer.error(error),
    );
  });
}
