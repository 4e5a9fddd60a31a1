import { Inject, Injectable, type OnApplicationShutdown, type OnModuleDestroy } from '@nestjs/common';
import * as undici from 'undici';
import type { Dispatcher } from 'undici';
import { ConfigurationError } from '../errors/configuration.error.js';
import { CHECKED_OPTIONS, type CheckedOptions } from '../config/check-options.js';
import { ProblemLog } from '../config/problems/problem-log.service.js';
import type { Tenant, StateKey } from '../config/tenant.js';
import { Clock } from '../call/clock.js';
import type { Call } from '../call/call.js';
import { Calls } from '../call/calls.service.js';
import { Rests } from '../call/partner.js';
import type { HttpSettings, ModuleHttpSettings } from '../config/tenant-options.interface.js';
import { createCache, type ExpiringCache } from '../call/expiring-cache.js';
import { RequestAttempts } from './request-attempts.js';
import type { TransportReply, TransportRequest, Operation } from './transport-request.interface.js';
import { AXIOS, AxiosClient, type AxiosPackages } from './wire/axios-client.js';
import { originOf } from './wire/http-client.js';
import { ConnectionSlots } from './limits/connection-slots.js';
import { RequestLimits } from './limits/request-limits.js';

type Factory = NonNullable<Tenant['http']['dispatcher']>;

/** Time in ms from Nest's first hook until all calls end in any case: an endless `@Sse()` stream would hold the process. */
const CLOSE_AFTER = 10_000;

/** Sends every request to the service and the provider, through the dispatcher of its host and within its limits. */
@Injectable()
export class Transport implements OnModuleDestroy, OnApplicationShutdown {
  readonly #client: AxiosClient;
  /**
   * Dispatchers that hosts created for a proxy or mTLS (`http.dispatcher`), by the function: tenants with the same one share a
   * dispatcher. A tenant of a source that returns with another function gets another dispatcher and keeps everything else; calls
   * that began with the former one end with it.
   */
  readonly #dispatchers = new WeakMap<Factory, Dispatcher>();
  readonly #limits: TenantLimits;
  #closeTimer: NodeJS.Timeout | undefined;

  constructor(
    @Inject(Clock) private readonly clock: Clock,
    @Inject(Calls) private readonly calls: Calls,
    @Inject(ProblemLog) private readonly log: ProblemLog,
    @Inject(CHECKED_OPTIONS) { settings }: CheckedOptions,
    @Inject(AXIOS) packages: AxiosPackages,
    @Inject(Rests) rests: Rests,
  ) {
    this.#client = new AxiosClient(packages, settings.axios, clock, settings.http.maxConnections);
    this.#limits = new TenantLimits(settings.http, clock, rests);
  }

  /**
   * Sends a request within the deadline, with retries where they help.
   *
   * @returns any 2xx with its JSON, and any 4xx but 408 and 429 with its JSON if it has one
   * @throws {ExhibitorError} `deadline_exceeded`, `aborted`, `rate_limited`, `service_unavailable` or
   * `malformed_response`, with `tenant`, `status`, `retryAfterMs` and `attempts` where they are known
   */
  async send(tenant: Tenant, request: TransportRequest, call: Call): Promise<TransportReply> {
    const dispatcher = this.dispatcherOf(tenant);
    const { operation, url } = request;
    const origin = originOf(url);
    const limits =
      operation === 'keys' || operation === 'metadata'
        ? this.#limits.ofDocument(operation, url, origin, dispatcher)
        : this.#limits.of(tenant, operation, origin);
    const tools = { clock: this.clock, client: this.#client, log: this.log, dispatcher, limits };
    return new RequestAttempts(tenant, request, call, tools).run();
  }

  /** The dispatcher that the host configured for this tenant, and closes; `undefined` for our own connections. */
  dispatcherOf({ key, http: { dispatcher: factory } }: Tenant): Dispatcher | undefined {
    if (factory === undefined) {
      return undefined;
    }
    const dispatcher = this.#dispatchers.get(factory) ?? this.#create(factory, key);
    this.#dispatchers.set(factory, dispatcher);
    return dispatcher;
  }

  #create(factory: Factory, tenant: string): Dispatcher {
    const option = 'http.dispatcher';
    let created: Dispatcher;
    try {
      created = factory(undici);
    } catch (error) {
      throw this.log.hostError({ option, key: tenant }, error);
    }
    if (typeof created?.dispatch === 'function') {
      return created;
    }
    throw new ConfigurationError([{ path: option, expected: 'must return an undici dispatcher' }], tenant);
  }

  /** Nest calls this hook while the HTTP server still accepts requests, so calls go on until that has closed. */
  onModuleDestroy(): void {
    this.#closeTimer = setTimeout(() => void this.#close(), CLOSE_AFTER).unref();
  }

  async onApplicationShutdown(): Promise<void> {
    clearTimeout(this.#closeTimer);
    await this.#close();
  }

  /**
   * Ends all calls of the module, then closes our connections: a call must not take its closed connection for a failure of the
   * service. Dispatchers of hosts stay open.
   */
  async #close(): Promise<void> {
    this.calls.close();
    await this.#client.close();
  }
}

/**
 * Origins whose connections are counted, and published documents with limits of a dispatcher. The one that was added or used least
 * recently goes, and counts anew.
 */
const MOST = 10_000;

/** Finds the limits of a request. Those of a tenant go with its state. */
class TenantLimits {
  readonly #byTenant = new WeakMap<StateKey, RequestLimits[]>();
  /** By dispatcher of a host, or this for our own connections, then by URL. */
  readonly #ofDocuments = new WeakMap<object, ExpiringCache<RequestLimits>>();
  readonly #connections: ExpiringCache<ConnectionSlots>;

  constructor(
    private readonly http: ModuleHttpSettings,
    private readonly clock: Clock,
    private readonly rests: Rests,
  ) {
    this.#connections = createCache(clock, { max: MOST });
  }

  of(tenant: Tenant, operation: Operation, origin: string): RequestLimits {
    const { stateKey, http } = tenant;
    const ofTenant = this.#byTenant.get(stateKey) ?? [];
    const known = ofTenant.find((limits) => limits.operation === operation && limits.origin === origin);
    if (known !== undefined) {
      return known;
    }
    const created = this.#create(operation, origin, http, { key: tenant.key, stateKey });
    this.#byTenant.set(stateKey, [...ofTenant, created]);
    return created;
  }

  /**
   * Those of a published document, with the settings of the module: tenants share it, and one with small limits must not fail it for
   * the others. What a proxy of one tenant answers is not for the others, so each dispatcher has its own.
   */
  ofDocument(operation: Operation, url: string, origin: string, dispatcher: object = this): RequestLimits {
    const documents = this.#ofDocuments.get(dispatcher) ?? createCache(this.clock, { max: MOST });
    this.#ofDocuments.set(dispatcher, documents);
    const limits = documents.get(url) ?? this.#create(operation, origin, this.http, undefined);
    documents.set(url, limits);
    return limits;
  }

  #create(
    operation: Operation,
    origin: string,
    http: HttpSettings,
    tenant: Pick<Tenant, 'key' | 'stateKey'> | undefined,
  ): RequestLimits {
    const connections =
      this.#connections.get(origin) ?? new ConnectionSlots(this.http.maxConnections, this.clock);
    this.#connections.set(origin, connections);
    return new RequestLimits(operation, origin, http, tenant, connections, this.rests, this.clock);
  }
}
