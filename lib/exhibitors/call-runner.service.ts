import { Inject, Injectable } from '@nestjs/common';
import { Observable, type Subscriber, type Subscription } from 'rxjs';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import { TenantRegistry } from '../config/tenant-registry.service.js';
import type { Tenant } from '../config/tenant.js';
import type { Call } from '../call/call.js';
import { Calls } from '../call/calls.service.js';
import type { CallOptions } from './call-options.interface.js';

/** Finds the tenant of a call within the time of the call. */
@Injectable()
export class CallRunner {
  /** In ms, of the module. */
  readonly #deadline: number;

  constructor(
    @Inject(TenantRegistry) private readonly tenants: TenantRegistry,
    @Inject(Calls) private readonly calls: Calls,
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
  ) {
    this.#deadline = settings.http.deadline;
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
    const found = this.tenants.resolve(key, deadline);
    const isSearched = found instanceof Promise;
    const ms = deadline ?? (isSearched ? this.#deadline : found.http.deadline);
    const call = this.calls.start(ms, signal);
    consumer.add(call.abort);
    return call.run(async () => {
      const tenant = await awaited(found, call);
      if (isSearched) {
        // The tenant may have a shorter deadline than the module: it counts from the start of the call on.
        const elapsed = ms - call.remaining();
        call.setTimeLeft((deadline ?? tenant.http.deadline) - elapsed);
      }
      requireTime(call, tenant);
      const result = await work(tenant, call);
      // The call is done: its consumer has nothing to end any more.
      consumer.remove(call.abort);
      return result;
    });
  }

  /** The tenant of a call of several requests. The search is a part of the call, with the time of one request. */
  tenantOf({ tenant: key, deadline }: CallOptions, whole: Call): Promise<Tenant> {
    return whole.part(deadline ?? this.#deadline).run(async (search) => {
      const tenant = await awaited(this.tenants.resolve(key, deadline), search);
      requireTime(search, tenant);
      return tenant;
    });
  }
}

function awaited(found: Tenant | Promise<Tenant>, call: Call): Tenant | Promise<Tenant> {
  return found instanceof Promise ? call.race(found) : found;
}

function requireTime(call: Call, tenant: Tenant): void {
  if (call.isOver) {
    throw call.failure({ tenant: tenant.key });
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
