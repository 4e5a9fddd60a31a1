import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { ExhibitorError } from '../errors/exhibitor.error.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import { Connections } from './wire/connections.js';
import type { Deadline } from '../time/deadline.js';
import { RetryingRequest } from './retrying-request.js';
import { Dispatchers } from './wire/dispatchers.js';
import { createHttpClient, splitUrl } from './wire/http-client.js';
import { TenantLimits } from './limits/tenant-limits.js';
import type { TransportReply, TransportRequest } from './transport-request.interface.js';

/**
 * The one way out: every byte to the service passes here. It alone knows about time, retries, limits and what a
 * failure of the network means.
 */
@Injectable()
export class Transport implements OnModuleDestroy {
  readonly #connections = new Connections();
  readonly #http = createHttpClient(this.#connections);
  readonly #dispatchers = new Dispatchers();
  readonly #lanes = new TenantLimits();
  readonly #calls = new Set<Deadline>();
  #isClosed = false;

  constructor(@Inject(Clock) private readonly clock: Clock) {}

  /**
   * Sends a request, again where that helps, within the deadline.
   *
   * @returns any 2xx with its JSON, and any 4xx but 408 and 429 with its JSON if it has one
   * @throws {ExhibitorError} `deadline_exceeded`, `aborted`, `rate_limited`, `service_unavailable` or
   * `malformed_response`, with what is known of tenant, status, retryAfterMs and attempts
   */
  async send(tenant: Tenant, request: TransportRequest, deadline: Deadline): Promise<TransportReply> {
    if (this.#isClosed) {
      throw new ExhibitorError('service_unavailable', 'the module was closed', {
        tenant: tenant.key,
        attempts: 0,
      });
    }
    const { origin } = splitUrl(request.url);
    const dispatcher = this.#dispatchers.of(tenant);
    const limits = this.#lanes.use(tenant, request.operation, origin);
    this.#calls.add(deadline);
    try {
      const tools = { clock: this.clock, http: this.#http, dispatcher, limits };
      return await new RetryingRequest(tenant, request, deadline, tools).run();
    } finally {
      this.#calls.delete(deadline);
      this.#lanes.release(tenant, limits);
    }
  }

  /** Ends what is under way and closes our connections; those of a host's dispatcher are the host's. */
  async onModuleDestroy(): Promise<void> {
    this.#isClosed = true;
    for (const deadline of this.#calls) {
      deadline.close();
    }
    await this.#connections.close();
  }
}
