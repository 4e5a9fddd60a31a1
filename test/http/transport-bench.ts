import { afterEach } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { checkOptions } from '../../lib/config/check-options.js';
import type { HttpOptions, ModuleHttpOptions, TenantOptions } from '../../lib/index.js';
import { ProblemLog } from '../../lib/config/problems/problem-log.service.js';
import type { TenantRegistry } from '../../lib/config/tenant-registry.service.js';
import type { Tenant } from '../../lib/config/tenant.js';
import { Clock } from '../../lib/call/clock.js';
import { Calls } from '../../lib/call/calls.service.js';
import { Rests } from '../../lib/call/partner.js';
import type { TransportReply, TransportRequest } from '../../lib/http/transport-request.interface.js';
import { loadAxios } from '../../lib/http/wire/axios-client.js';
import { Transport } from '../../lib/http/transport.service.js';
import { registryOf } from '../support/registry.js';
import type { TestServer } from '../support/server.js';
import { tenantAt } from '../support/tenant-at.js';

const PACKAGES = await loadAxios();

// The tests cause failures that operators are told of.
Logger.overrideLogger(['fatal']);

const parts: (TestServer | Sender)[] = [];
afterEach(async () => {
  for (const part of parts.splice(0).toReversed()) {
    await ('stop' in part ? part.stop() : part.close());
  }
});

/** What ends after the test, before what it was given earlier. */
export function ending<P extends TestServer | Sender>(part: P): P {
  parts.push(part);
  return part;
}

/** A transport with tenants, without Nest. */
export class Sender {
  readonly registry: TenantRegistry;
  readonly transport: Transport;
  readonly #calls: Calls;

  private constructor(
    options: unknown,
    readonly clock: Clock,
  ) {
    const checked = checkOptions(options);
    this.#calls = new Calls(clock);
    this.registry = registryOf(checked, clock);
    this.transport = new Transport(
      clock,
      this.#calls,
      new ProblemLog(checked, clock),
      checked,
      PACKAGES,
      new Rests(clock),
    );
  }

  static with(url: string, http: HttpOptions = {}, clock = new Clock()): Sender {
    return new Sender({ tenant: tenantAt(url), http }, clock);
  }

  static withTenants(
    tenants: Record<string, TenantOptions>,
    http: ModuleHttpOptions = {},
    clock = new Clock(),
  ): Sender {
    return new Sender({ tenants, http }, clock);
  }

  tenant(key = 'default'): Promise<Tenant> {
    return this.registry.get(key);
  }

  /** Sends a GET of the list by default. */
  async send(
    request: Partial<TransportRequest> = {},
    call: { tenant?: string; deadline?: number; signal?: AbortSignal } = {},
  ): Promise<TransportReply> {
    const tenant = await this.tenant(call.tenant);
    const running = this.#calls.start(call.deadline ?? tenant.http.deadline, call.signal);
    const whole: TransportRequest = {
      operation: 'list',
      method: 'GET',
      url: `${tenant.baseUrl}/list`,
      template: '/list',
      ...request,
    };
    return this.transport.send(tenant, whole, running).finally(() => running.clear());
  }

  close(): Promise<void> {
    return this.transport.onApplicationShutdown();
  }
}
