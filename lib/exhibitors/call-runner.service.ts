import { Inject, Injectable } from '@nestjs/common';
import { Observable, type Subscriber, type Subscription } from 'rxjs';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import { TenantRegistry } from '../config/tenant-registry.service.js';
import type { Tenant } from '../config/tenant.js';
import type { Call } from '../call/call.js';
import { Calls } from '../call/calls.service.js';
import type { CallOptions } from './call-options.interface.js';

/** Finds the tenant of a call, and gives the call its time. */
@Injectable()
export class CallRunner {
  readonly #defaultDeadline: number;

  constructor(
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(Calls) private readonly calls: Calls,
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
  ) {
    this.#defaultDeadline = settings.http.deadline;
  }

  /**
   * Runs a call of one request, `list` or `lookup`. Its time begins before the tenant is found, since a `TenantSource` may be slow.
   * It ends when its consumer leaves.
   *
   * @throws {ExhibitorError} `tenant_required`, `unknown_tenant`, `deadline_exceeded`, `aborted`, and errors of `work`
   */
  async run<R>(
    { tenant: key, deadline, signal }: CallOptions,
    consumer: Subscription,
    work: (tenant: Tenant, call: Call) => Promise<R>,
  ): Promise<R> {
    const found = this.tenants.resolve(key);
    const isKnown = !(found instanceof Promise);
    const ms = deadline ?? (isKnown ? found.http.deadline : this.#defaultDeadline);
    const inTime = async (call: Call): Promise<R> => {
      consumer.add(call.abort);
      const tenant = isKnown ? found : await call.race(found);
      if (!isKnown) {
        const elapsed = ms - call.remaining();
        call.limit((deadline ?? tenant.http.deadline) - elapsed);
      }
      if (call.isOver) {
        throw call.failure({ tenant: tenant.key });
      }
      return work(tenant, call);
    };
    return this.calls.within(ms, inTime, signal);
  }

  /** Begins a call of several requests, each {@link within} a time of its own. The caller must end it. */
  begin({ signal }: CallOptions): Call {
    return this.calls.open(signal);
  }

  /** The tenant of a call of several requests. */
  tenantOf({ tenant, deadline = this.#defaultDeadline }: CallOptions, call: Call): Promise<Tenant> {
    return this.within(
      deadline,
      async (search) => search.race(Promise.resolve(this.tenants.resolve(tenant))),
      call,
    );
  }

  /** Does `work` as a part of a call of several requests; as a call of its own for a guard, which knows the tenant. */
  within<R>(ms: number, work: (call: Call) => Promise<R>, whole?: Call): Promise<R> {
    return this.calls.within(ms, work, whole);
  }
}

/**
 * A cold Observable of a call. Options are checked on subscription, so that a wrong one is an error notification.
 *
 * @param run the call, which passes what it finds to its consumer, and ends when the consumer leaves
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
