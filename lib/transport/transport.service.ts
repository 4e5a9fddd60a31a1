import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { ProblemLog } from '../problems/problem-log.service.js';
import type { Tenant } from '../tenants/tenant.js';
import { Clock } from '../time/clock.js';
import type { Deadline } from '../time/deadline.js';
import { TenantLimits } from './limits/tenant-limits.js';
import { RetryingRequest } from './retrying-request.js';
import type { TransportReply, TransportRequest } from './transport-request.interface.js';
import { Dispatchers } from './wire/dispatchers.js';
import { HttpClient, splitUrl, type HttpRequest } from './wire/http-client.js';

/**
 * Sends every request to the service and the provider. Retries, limits, circuits and the meaning of network failures are
 * decided here and nowhere else.
 */
@Injectable()
export class Transport implements OnModuleDestroy {
  readonly #clock: Clock;
  readonly #log: ProblemLog;
  readonly #http = new HttpClient();
  readonly #dispatchers = new Dispatchers();
  readonly #limits = new TenantLimits();

  constructor(@Inject(Clock) clock: Clock, @Inject(ProblemLog) log: ProblemLog) {
    this.#clock = clock;
    this.#log = log;
  }

  /**
   * Sends a request within the deadline, with retries where they help.
   *
   * @returns any 2xx with its JSON, and any 4xx but 408 and 429 with its JSON if it has one
   * @throws {ExhibitorError} `deadline_exceeded`, `aborted`, `rate_limited`, `service_unavailable` or
   * `malformed_response`, with `tenant`, `status`, `retryAfterMs` and `attempts` where they are known
   */
  async send(tenant: Tenant, request: TransportRequest, deadline: Deadline): Promise<TransportReply> {
    const { origin, path } = splitUrl(request.url);
    const limits = this.#limits.use(tenant, request.operation, origin);
    try {
      const found = this.#dispatchers.of(tenant);
      const dispatcher = found instanceof Promise ? await found : found;
      const tools = {
        clock: this.#clock,
        http: this.#http,
        dispatcher,
        origin,
        path,
        limits,
        log: this.#log,
      };
      return await new RetryingRequest(tenant, request, deadline, tools).run();
    } finally {
      this.#limits.release(tenant, limits);
    }
  }

  /** The dispatcher that the host configured for this tenant; `undefined` for our own connections. */
  dispatcherOf(tenant: Tenant): HttpRequest['dispatcher'] | Promise<HttpRequest['dispatcher']> {
    return this.#dispatchers.of(tenant);
  }

  /** Closes our connections. Dispatchers of hosts stay open. */
  async onModuleDestroy(): Promise<void> {
    await this.#http.close();
  }
}
