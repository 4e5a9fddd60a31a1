import type { HttpSettings, ModuleHttpSettings } from '../../config/tenant-options.interface.js';
import type { StateKey, Tenant } from '../../config/tenant.js';
import type { Clock } from '../../call/clock.js';
import type { Deadline } from '../../call/deadline.js';
import { createCache, type ExpiringCache } from '../../call/expiring-cache.js';
import { Semaphore } from './semaphore.js';
import type { Operation } from '../transport-request.interface.js';
import { Circuit } from './circuit.js';
import { ConnectionSlots } from './connection-slots.js';

/** Waiting requests per slot. A burst is served; a flood is refused instead of kept in memory. */
const WAITING_PER_SLOT = 16;

/** Answer to a request that the full queue refuses. */
const QUEUE_FULL = { retryAfterMs: 1_000 };

/**
 * Origins whose connections are counted, and published documents with limits of a dispatcher. The one that was added or used least
 * recently goes, and counts anew.
 */
const MOST = 10_000;

/** Largest token, userinfo, metadata or key reply in bytes. */
const LARGEST_SMALL_REPLY = 256 * 1024;

/** Tokens of a full bucket, of a retry, and of a success. */
const FULL = 500;
const RETRY = 5;
const SUCCESS = 1;

/** Retries that a tenant has left at one origin: where everything fails, they must not multiply the load. */
class RetryBudget {
  #left = FULL;

  /** Takes one retry. Answers false, and takes nothing, where too little is left. */
  take(): boolean {
    if (this.#left < RETRY) {
      return false;
    }
    this.#left -= RETRY;
    return true;
  }

  succeeded(): void {
    this.#left = Math.min(FULL, this.#left + SUCCESS);
  }
}

/**
 * Limits of the requests of one operation, of one tenant to one origin, or for one published document: concurrency, retries and
 * circuit. Slow or failing lists must not hold up guards, which look up, nor forged codes bearer tokens.
 */
export class RequestLimits {
  readonly budget = new RetryBudget();
  readonly circuit = new Circuit();
  readonly #slots: Semaphore;

  /** @param tenant `undefined` for published documents, which are of all tenants */
  constructor(
    readonly operation: Operation,
    readonly origin: string,
    readonly http: HttpSettings,
    private readonly tenant: string | undefined,
    private readonly connections: ConnectionSlots,
    private readonly clock: Clock,
  ) {
    const { maxConcurrent: slots } = http;
    this.#slots = new Semaphore({ slots, waiting: slots * WAITING_PER_SLOT });
  }

  /** Largest accepted reply in bytes, compressed and decompressed. */
  get largestReply(): number {
    const { maxResponseBytes } = this.http;
    return this.operation === 'list' || this.operation === 'lookup'
      ? maxResponseBytes
      : Math.min(LARGEST_SMALL_REPLY, maxResponseBytes);
  }

  /**
   * Takes a slot and a connection for one request, waiting for them if necessary. Answers `over` where the call was over first, and
   * how long to wait where the circuit is open or the queue is full.
   */
  async enter(deadline: Deadline): Promise<'entered' | 'over' | { retryAfterMs: number }> {
    if (this.#openFor() > 0) {
      return { retryAfterMs: this.#openFor() };
    }
    const entry = await this.#slots.enter(deadline);
    if (entry !== 'entered') {
      return entry === 'full' ? QUEUE_FULL : entry;
    }
    if ((await this.connections.enter(this.tenant, deadline)) === 'over') {
      this.#slots.leave();
      return 'over';
    }
    // The circuit may have opened while the request waited.
    if (this.#openFor() > 0) {
      this.leave();
      return { retryAfterMs: this.#openFor() };
    }
    return entry;
  }

  /** Returns the connection and the slot. */
  leave(): void {
    this.connections.leave(this.tenant);
    this.#slots.leave();
  }

  #openFor(): number {
    return Math.ceil(this.circuit.openFor(this.clock.now()));
  }
}

/** The limits of all requests. Those of a tenant go with its state. */
export class TenantLimits {
  readonly #byTenant = new WeakMap<StateKey, RequestLimits[]>();
  /** By dispatcher of a host, or this for our own connections, then by URL. */
  readonly #ofDocuments = new WeakMap<object, ExpiringCache<RequestLimits>>();
  readonly #connections: ExpiringCache<ConnectionSlots>;

  constructor(
    private readonly http: ModuleHttpSettings,
    private readonly clock: Clock,
  ) {
    this.#connections = createCache(clock, { max: MOST });
  }

  of({ key, stateKey, http }: Tenant, operation: Operation, origin: string): RequestLimits {
    const ofTenant = this.#byTenant.get(stateKey) ?? [];
    const known = ofTenant.find((limits) => limits.operation === operation && limits.origin === origin);
    if (known !== undefined) {
      return known;
    }
    const created = this.#create(operation, origin, http, key);
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
    tenant: string | undefined,
  ): RequestLimits {
    const connections =
      this.#connections.get(origin) ?? new ConnectionSlots(this.http.maxConnections, this.clock);
    this.#connections.set(origin, connections);
    return new RequestLimits(operation, origin, http, tenant, connections, this.clock);
  }
}
