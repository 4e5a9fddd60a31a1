import { Inject, Injectable } from '@nestjs/common';
import { Observable, Subscription, type Subscriber } from 'rxjs';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import { TenantRegistry } from '../config/tenant-registry.service.js';
import type { Tenant } from '../config/tenant.js';
import { Clock } from '../call/clock.js';
import { onAbort, type Deadline, Deadlines } from '../call/deadline.js';
import type { CallOptions } from './call-options.interface.js';
import {
  checkCall,
  checkSubject,
  withTenant,
  type CallSchema,
  type CallSubject,
} from './call-options.schema.js';

/** A call, and the subscription of its consumer, whose end aborts it: an `AbortSignal` would take a tenth of the time of a page. */
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
   * @param boundTo key of the tenant of `forTenant`
   * @throws {ExhibitorError} `invalid_argument`
   */
  check<Subject extends CallSubject, Checked extends object>(
    subject: Subject,
    schema: CallSchema<Checked>,
    options: CallOptions | undefined,
    boundTo: string | undefined,
  ): Subject & Checked {
    checkSubject(subject);
    return Object.assign(checkCall(schema, withTenant(options, boundTo)), subject);
  }

  /**
   * Runs a call of one request, `list` or `lookup`: {@link tenant} and {@link within} under one deadline. It starts before the tenant
   * is found, since a `TenantSource` may be slow.
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

  /** The tenant of a call. Waiting for it ends with the deadline of the call. */
  tenant(call: RunningCall): Tenant | Promise<Tenant> {
    const found = this.tenants.resolve(call.tenant);
    if (!(found instanceof Promise)) {
      return found;
    }
    return this.#limit(call, this.#defaultDeadline, (deadline) => deadline.race(found));
  }

  /** Does `work` under a new deadline: for each page of a reading, whose tenant is found once, and for the lookup of a guard. */
  within<R>(
    tenant: Tenant,
    call: Omit<RunningCall, 'tenant'>,
    work: (deadline: Deadline) => Promise<R>,
  ): Promise<R> {
    return this.#limit(call, tenant.http.deadline, (deadline) =>
      deadline.isOver ? Promise.reject(deadline.failure({ tenant: tenant.key })) : work(deadline),
    );
  }

  #limit<R>(
    { deadline: ms, signal, consumer }: RunningCall,
    defaultMs: number,
    work: (deadline: Deadline) => Promise<R>,
  ): Promise<R> {
    const limited = (deadline: Deadline): Promise<R> => {
      const leave = (): void => deadline.abort();
      consumer?.add(leave);
      return work(deadline).finally(() => consumer?.remove(leave));
    };
    return this.deadlines.within(ms ?? defaultMs, limited, signal);
  }
}

/** A checked call of several requests: they end when its consumer is closed. */
export type Call<Options extends CallOptions> = Omit<Options, 'signal'> & { consumer: Subscription };

/** What a call of several requests adds to it ends when it is closed, and when the caller's own signal aborts. */
export function openScope(callerSignal: AbortSignal | undefined): Subscription {
  const scope = new Subscription();
  scope.add(onAbort(callerSignal, () => scope.unsubscribe()));
  return scope;
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
